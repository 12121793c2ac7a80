"""The guide's code with the import changed, and roots behind URLs."""

import os
import pickle
import sys
import unittest

import numpy as np

import headrace
import headrace.utils.data.kspeeddataset as KSpeedDataset
import support

sys.path.insert(0, str(support.ROOT / "tests" / "support"))


class Callable(KSpeedDataset.KSpeedFolder):
    """The guide's source of a DALI pipeline."""

    def __init__(self, root):
        super().__init__(root, None, 4, "127.0.0.1", "admin", "admin")
        self.files = [os.path.join(*path.split(os.sep)[-2:]) for path, _ in self.samples]
        self.labels = self.targets

    def __call__(self, number):
        path = os.path.join(self.root, self.files[number])
        sample = np.frombuffer(self.getBIN(path), dtype=np.uint8)
        return sample, np.int32([self.labels[number]])


def raw_of(index, number):
    return index.raw(number)


class KSpeedTest(unittest.TestCase):
    def test_image_folder(self):
        for form, root in support.roots().items():
            with self.subTest(form):
                plain = headrace.ImageFolder(root)
                folder = KSpeedDataset.KSpeedImageFolder(root, None, 4, "10.0.0.1,10.0.0.2", "admin", "admin",
                                                         lambda image: image.size)
                self.assertEqual(folder.samples, plain.samples)
                self.assertEqual(folder[3], (plain[3][0].size, plain[3][1]))
        with self.assertRaisesRegex(ValueError, "expected None"):
            KSpeedDataset.KSpeedImageFolder(root, "here", 4, "", "admin", "admin")

    def test_bytes_by_path(self):
        files = sorted(support.drawn().glob("*/*"), key=lambda path: (path.parent.name, path.name))
        for form, root in support.roots().items():
            with self.subTest(form):
                source = Callable(root)
                for number, path in enumerate(files):
                    sample, label = source(number)
                    self.assertEqual(sample.tobytes(), path.read_bytes())
                    self.assertEqual(label.tolist(), [support.CLASSES.index(path.parent.name)])
                    self.assertIn(path, source)
                self.assertNotIn("ant/absent.JPEG", source)
                with self.assertRaisesRegex(FileNotFoundError, "absent.JPEG"):
                    source.getBIN(os.path.join(root, "ant", "absent.JPEG"))


class UrlTest(unittest.TestCase):
    def setUp(self):
        support.packed("jpeg")
        self.at = support.serve(self)

    def same(self, index):
        local = headrace.Index(support.packed("jpeg"))
        self.assertEqual([index.raw(i) for i in range(len(index))], [local.raw(i) for i in range(len(local))])

    def test_an_index_behind_a_url(self):
        index = headrace.Index(f"{self.at}/plain/jpeg.idx")
        self.same(index)
        self.same(pickle.loads(pickle.dumps(index)))
        child = os.fork()
        if child == 0:
            status = 1
            try:
                self.same(index)
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        with headrace.Loader(index, 5, image_size=24, threads=2) as remote, \
                headrace.Loader(support.packed("jpeg"), 5, image_size=24, threads=2) as local:
            for (images, labels), (expected, expected_labels) in zip(remote, local):
                np.testing.assert_array_equal(images, expected)
                np.testing.assert_array_equal(labels, expected_labels)

    def test_tokens_and_certificates(self):
        import fault_server

        index = headrace.Index(f"{self.at}/bearer/jpeg.idx", token=fault_server.TOKEN)
        self.same(index)
        self.same(pickle.loads(pickle.dumps(index)))
        with self.assertRaises(headrace.HeadraceError):
            headrace.Index(f"{self.at}/bearer/jpeg.idx", token="another")
        certificate, key = support.folder() / "certificate.pem", support.folder() / "key.pem"
        support.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate)
        both = support.folder() / "both.pem"
        both.write_text(certificate.read_text() + key.read_text())
        url = support.serve(self, "--certificate", str(both)).replace("http:", "https:") + "/plain/jpeg.idx"
        with self.assertRaisesRegex(headrace.HeadraceError, "certificate is not trusted: .*ca_file"):
            headrace.Index(url)
        trusting = headrace.Index(url, ca_file=os.path.relpath(certificate))
        self.same(trusting)
        self.same(pickle.loads(pickle.dumps(trusting)))
        with headrace.Loader(url, 5, image_size=24, threads=2, ca_file=certificate) as loader:
            self.assertEqual(len(list(loader)), 8)
        self.assertEqual(len(headrace.ImageFolder(url, ca_file=certificate)), 36)

    def test_users_and_origins(self):
        import fault_server

        url = f"{self.at}/basic/jpeg.idx"
        with self.assertRaises(headrace.HeadraceError) as refused:
            headrace.Index(url, user=fault_server.USER, password="wrong").raw(0)
        self.assertNotIn("wrong", str(refused.exception))
        with self.assertRaisesRegex(ValueError, "password has a NUL character"):
            headrace.Index(url, user=fault_server.USER, password="s3cret\0more")
        index = headrace.Index(url, user=fault_server.USER, password=fault_server.PASSWORD)
        self.same(index)
        self.same(pickle.loads(pickle.dumps(index)))
        self.assertNotIn(fault_server.PASSWORD, repr(index))
        folder = KSpeedDataset.KSpeedFolder(url, None, 4, [f"{self.at}/basic"], fault_server.USER, fault_server.PASSWORD)
        self.assertEqual(folder.getBIN(folder.samples[2][0]), folder.index.raw(2))
        with self.assertRaisesRegex(ValueError, "neither a URL nor a host"):
            headrace.Index(url, origins=["a b"])


if __name__ == "__main__":
    unittest.main()
