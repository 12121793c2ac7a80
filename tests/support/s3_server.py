#!/usr/bin/env python3
"""An S3 server on 127.0.0.1 that checks signatures (moto's): python3 s3_server.py FOLDER

Puts the files of FOLDER into the bucket "shards", makes a user who may read it, prints "PORT KEY SECRET", and ends when
its stdin does.
"""

import os
import sys

os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "1000000"  # until the bucket is filled
os.environ.setdefault("AWS_DEFAULT_REGION", "eu-west-1")

import boto3  # noqa: E402 (after the settings that it reads)
import json
from moto import settings
from moto.server import ThreadedMotoServer

POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}


def main():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    base = f"http://127.0.0.1:{port}"
    account = {"endpoint_url": base, "aws_access_key_id": "setup", "aws_secret_access_key": "setup"}
    s3 = boto3.client("s3", **account)
    s3.create_bucket(Bucket="shards", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    for name in sorted(os.listdir(sys.argv[1])):
        s3.upload_file(os.path.join(sys.argv[1], name), "shards", "data set/" + name)
    iam = boto3.client("iam", **account)
    iam.create_user(UserName="reader")
    iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=json.dumps(POLICY))
    key = iam.create_access_key(UserName="reader")["AccessKey"]
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0.0
    print(port, key["AccessKeyId"], key["SecretAccessKey"], flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
