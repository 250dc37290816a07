"""An authority of a test's own, and certificates by it, made by the `openssl` program."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


class Authority:
    """A new authority in a folder; `ca_file` is what a client must believe."""

    def __init__(self, folder: Path) -> None:
        self.ca_file = folder / "ca.pem"
        self._folder = folder
        if shutil.which("openssl") is None:
            pytest.skip("this machine has no openssl program to make certificates with")
        (folder / "ca.cnf").write_text(_AUTHORITY)
        _openssl(folder, "req", "-x509", "-config", "ca.cnf", *_NEW_KEY, "ca.key", "-out", "ca.pem", "-days", "2")

    def server(self, *names: str) -> ssl.SSLContext:
        """How a server with a certificate for some names (`DNS:…`, `IP:…`) speaks TLS."""
        stem = names[0].replace(":", "-")
        (self._folder / f"{stem}.ext").write_text(f"{_SERVER}subjectAltName={','.join(names)}\n")
        _openssl(self._folder, "req", "-new", *_NEW_KEY, f"{stem}.key", "-out", f"{stem}.csr", "-subj", "/CN=test")
        _openssl(
            self._folder, "x509", "-req", "-in", f"{stem}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", f"{stem}.ext", "-out", f"{stem}.pem",
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / f"{stem}.pem", self._folder / f"{stem}.key")
        return context

    def client(self) -> ssl.SSLContext:
        """How a client that believes this authority speaks TLS."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        # As newer Pythons do by themselves.
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
        return context


_AUTHORITY = """
[req]
distinguished_name = name
x509_extensions = authority
prompt = no
[name]
CN = test authority
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
"""
_SERVER = """
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout")


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(("openssl", *words), cwd=folder, check=True, capture_output=True)
