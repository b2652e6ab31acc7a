# SPDX-License-Identifier: Apache-2.0

"""The server of a soak: its lives, its certificates, its memory."""

import os
import random
import re
import signal
import socket
import subprocess
import time


class Life:
    """One process, from its start to its end. Times are time.monotonic()."""

    def __init__(self, number, process, started):
        self.number = number
        self.process = process
        self.started = started
        self.serving = None
        self.ended = None


class Certificates:
    """A certificate authority, and the pair of files that the server reads."""

    def __init__(self, folder):
        self.folder = folder
        self.ca = os.path.join(folder, "ca.pem")
        self.cert = os.path.join(folder, "cert.pem")
        self.key = os.path.join(folder, "key.pem")
        self.serial = 1000
        self._openssl(
            *"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1".split(),
            *"-nodes -days 2 -subj /CN=soak -keyout ca.key -out ca.pem".split(),
        )
        with open(os.path.join(folder, "ext"), "w", encoding="utf-8") as file:
            file.write("subjectAltName=IP:127.0.0.1\n")
        self.rotate()

    def rotate(self):
        """Puts a new key with a new certificate in place; returns its serial."""
        self.serial += 1
        self._openssl(
            *"req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1".split(),
            *"-nodes -subj /CN=127.0.0.1 -keyout next.key -out next.csr".split(),
        )
        self._openssl(
            *"x509 -req -in next.csr -CA ca.pem -CAkey ca.key -days 1".split(),
            *f"-set_serial {self.serial} -extfile ext -out next.pem".split(),
        )
        # One after the other, as an operator does: for a moment they do not
        # fit, and the server has to wait for the second.
        os.rename(os.path.join(self.folder, "next.key"), self.key)
        os.rename(os.path.join(self.folder, "next.pem"), self.cert)
        return self.serial

    def _openssl(self, *words):
        subprocess.run(
            ["openssl", *words],
            cwd=self.folder,
            check=True,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def free_port():
    """A port without a listener, and that no connection gets by chance
    while the server is down: below those that the kernel hands out."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Server:
    """planb_server on one store and at the same addresses in all its lives.

    Used by one thread; others may read `lives`.
    """

    def __init__(self, binary, folder, certificates):
        self.unix = f"unix://{folder}/planb.sock"
        self.tcp = f"127.0.0.1:{free_port()}"
        self.certificates = certificates
        self.log_path = os.path.join(folder, "server.log")
        self.lives = []
        self.command = [
            binary,
            f"--listen={self.unix},{self.tcp}",
            f"--store={folder}/planb.db",
            "--metrics_address=",
            # A history that is full soon: until then, memory has to grow.
            "--history_bytes=1000000",
        ]
        if certificates is not None:
            self.command += [
                f"--tls_cert={certificates.cert}",
                f"--tls_key={certificates.key}",
                "--tls_reload_interval=1s",
            ]

    @property
    def life(self):
        return self.lives[-1]

    def start(self):
        """Returns once it serves."""
        at = os.path.getsize(self.log_path) if self.lives else 0
        with open(self.log_path, "ab") as log:
            process = subprocess.Popen(self.command, stderr=log)
        self.lives.append(Life(len(self.lives), process, time.monotonic()))
        deadline = time.monotonic() + 120
        while not re.search(r" serving$", self._log_from(at), re.MULTILINE):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no server: {self._log_from(at)[-2000:]}")
            time.sleep(0.02)
        self.life.serving = time.monotonic()

    def stop(self, how):
        """Ends it by the signal `how`. Returns the exit code as Popen has it."""
        self.life.process.send_signal(how)
        code = self.life.process.wait(timeout=120)
        self.life.ended = time.monotonic()
        return code

    def kill(self):
        """May be called in any state."""
        if self.lives and self.life.process.poll() is None:
            self.stop(signal.SIGKILL)

    def resident_bytes(self):
        """VmRSS; None between two lives."""
        try:
            with open(
                f"/proc/{self.life.process.pid}/status", encoding="ascii"
            ) as file:
                for line in file:
                    if line.startswith("VmRSS:"):
                        return 1024 * int(line.split()[1])
        except OSError:
            pass
        return None

    def _log_from(self, at):
        with open(self.log_path, encoding="utf-8") as file:
            file.seek(at)
            return file.read()
