#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Breaks a copy of the contract in each way, and expects contract.py to refuse it."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROTO = "proto/planb/v1/types.proto"
FIELD = "  string label = 5;\n"
LINE = "field planb.v1.NextHop 5 label "


class ContractTest(unittest.TestCase):
    """A repository of its own, with one commit that has the contract of the tree."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / ".ci").mkdir()
        shutil.copy(ROOT / ".ci/contract.py", self.root / ".ci")
        shutil.copytree(ROOT / "proto", self.root / "proto")
        self.git("init", "--quiet")
        self.commit()

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid",
                        *arguments], cwd=self.root, check=True)

    def commit(self):
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--allow-empty", "--message=c")

    def change(self, old, new, path=PROTO):
        """Replaces the only `old` of a file."""
        text = (self.root / path).read_text()
        self.assertEqual(text.count(old), 1, old)
        (self.root / path).write_text(text.replace(old, new))

    def forget(self):
        """Removes the field's line from the list, as a deliberate break does."""
        path = self.root / "proto/CONTRACT.txt"
        lines = path.read_text().splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith(LINE)]
        self.assertEqual(len(kept), len(lines) - 1)
        path.write_text("".join(kept))

    def check(self, *flags):
        done = subprocess.run([self.root / ".ci/contract.py", *flags], check=False,
                              capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def assert_refused(self, said):
        for flags in (), ("--update",):
            code, text = self.check(*flags)
            self.assertEqual(code, 1)
            self.assertIn(said + LINE, text)

    def test_is_kept_as_it_is(self):
        self.assertEqual(self.check(), (0, "no tag v*: not compared with a release\n"))
        self.git("tag", "v0.8.0")
        self.assertEqual(self.check(), (0, ""))

    def test_removed_field_is_refused(self):
        self.change(FIELD, "")
        self.assert_refused("gone or changed: ")

    def test_renumbered_field_is_refused(self):
        self.change(FIELD, FIELD.replace("5", "6"))
        self.assert_refused("gone or changed: ")

    def test_renamed_field_and_another_type_are_refused(self):
        self.change(FIELD, FIELD.replace("label", "text"))
        self.assert_refused("gone or changed: ")
        self.change(FIELD.replace("label", "text"), FIELD.replace("string", "bytes"))
        self.assert_refused("gone or changed: ")

    def test_new_field_has_to_be_listed(self):
        self.change(FIELD, FIELD + "  string more = 6;\n")
        code, text = self.check()
        self.assertEqual(code, 1)
        self.assertIn("new: field planb.v1.NextHop 6 more ", text)
        self.assertEqual(self.check("--update")[0], 0)
        self.assertEqual(self.check()[0], 0)

    def test_released_field_cannot_be_forgotten(self):
        self.git("tag", "v0.8.0")
        self.change(FIELD, "")
        self.forget()
        self.commit()
        self.assert_refused("gone or changed since v0.8.0: ")

    def test_field_that_was_never_released_can(self):
        self.change(FIELD, "")
        self.forget()
        self.commit()
        self.git("tag", "v0.9.0")
        self.assertEqual(self.check(), (0, ""))

    def test_the_newest_tag_counts(self):
        self.git("tag", "v0.9.0")
        self.change(FIELD, "")
        self.forget()
        self.commit()
        self.git("tag", "v0.10.0")
        self.assertEqual(self.check(), (0, ""))

    def test_tag_of_another_history_does_not_count(self):
        self.git("checkout", "--quiet", "--orphan", "other")
        self.commit()
        self.git("tag", "v9.0.0")
        self.git("checkout", "--quiet", "--orphan", "here")
        self.change(FIELD, "")
        self.forget()
        self.commit()
        self.assertEqual(self.check(), (0, "no tag v*: not compared with a release\n"))


if __name__ == "__main__":
    unittest.main()
