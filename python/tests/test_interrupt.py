"""Ctrl-C in calls that wait for a server which never answers: it comes at once, and nothing is left behind."""

import signal
import subprocess
import sys
import threading
import unittest

import headrace
import support

LATER_S = 0.3  # to be waiting by then


def interrupt(*_):
    raise KeyboardInterrupt


class InterruptTest(unittest.TestCase):
    def setUp(self):
        support.packed("jpeg")
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, interrupt))
        self.log = support.folder() / f"{self.id()}.log"
        self.server = support.serve(self, "--log", str(self.log))
        self.silent = self.server + "/silent/jpeg.idx"

    def interrupted(self, call, *arguments):
        """The call ends by the signal, before any request is made again: that it waited for its deadline."""
        self.log.write_text("")
        signal.setitimer(signal.ITIMER_REAL, LATER_S)
        with self.assertRaises(KeyboardInterrupt):
            call(*arguments)
        asked = self.log.read_text().splitlines()
        self.assertTrue(asked)
        self.assertEqual(len(asked), len(set(asked)))

    def test_opening(self):
        url = self.server + "/all-silent/jpeg.idx"
        for call in (headrace.Index, headrace.ImageFolder, lambda url: headrace.Loader(url, 5)):
            self.interrupted(call, url)
            before = support.held()
            for _ in range(3):
                self.interrupted(call, url)
            support.check_held(self, before)

    def test_records(self):
        cached = {"cache": support.folder() / f"{self.id()}.cache", "cache_size": "4M"}
        for options in ({}, cached):
            index = headrace.Index(self.silent, **options)
            folder = headrace.ImageFolder(self.silent, **options)
            self.interrupted(index.raw, 0)
            before = support.held()
            for number, call in enumerate((index.raw, index.pixels, folder.__getitem__) * 2):
                self.interrupted(call, number)
            support.check_held(self, before)

    def test_a_new_iteration(self):
        """It waits for what the last one began."""
        with headrace.Loader(self.silent, 5, image_size=24, threads=2) as loader:
            self.interrupted(lambda: next(iter(loader)))
            with self.assertRaises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, LATER_S)
                iter(loader)
            self.assertEqual(loader.state_dict()["epoch"], 1)
            with self.assertRaises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, LATER_S)
                iter(loader)
            self.assertEqual(loader.state_dict()["epoch"], 1)

    def test_a_handler_that_does_not_raise(self):
        """The call goes on, and its failure is the caller's."""
        seen = []
        signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            index = headrace.Index(self.server + "/slow/jpeg.idx")
            local = headrace.Index(support.packed("jpeg"))
            self.assertEqual([index.raw(i) for i in range(8)], [local.raw(i) for i in range(8)])
            with self.assertRaisesRegex(FileNotFoundError, "it is not there"):
                headrace.Index(self.server + "/slow/absent.idx")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.assertTrue(seen)

    def test_other_threads_wait_themselves(self):
        index = headrace.Index(self.server + "/slow/jpeg.idx")
        got = []
        thread = threading.Thread(target=lambda: got.append(index.raw(3)))
        thread.start()
        thread.join()
        self.assertEqual(got, [headrace.Index(support.packed("jpeg")).raw(3)])

    def test_sigint_ends_a_program(self):
        code = f"""
import os, signal, threading, headrace
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run in the background
index = headrace.Index({self.silent!r})
threading.Timer({LATER_S}, os.kill, (os.getpid(), signal.SIGINT)).start()
index.raw(1)
"""
        done = subprocess.run([sys.executable, "-c", code], text=True, timeout=60, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        self.assertEqual(done.stderr.splitlines()[-1], "KeyboardInterrupt")
        asked = [line for line in self.log.read_text().splitlines() if ".shard" in line]
        self.assertEqual(len(asked), len(set(asked)))


if __name__ == "__main__":
    unittest.main()
