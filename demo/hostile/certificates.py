"""Certificates of the zoo's TLS servers: good ones, and wrong ones of every kind."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from demo.hostile.behaviour import Certificate

_DAY: Final = timedelta(days=1)
# Certificates of a chain: twice as many bytes as OpenSSL takes, 100 KB.
_LONG_CHAIN: Final = 600


class Authority:
    """Certificate authority of the zoo; its own certificate is in `file`."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "authority.pem"
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name_of("The zoo")
        now = datetime.now(UTC)
        self._own = self._signed(
            "The zoo", self._key, (now - 9 * _DAY, now + 9 * _DAY), is_authority=True
        )
        self.file.write_bytes(_pem(self._own))

    def context(self, kind: Certificate, host: str) -> ssl.SSLContext:
        """Return what a server at this host shows."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        times = {
            Certificate.EXPIRED: (now - 9 * _DAY, now - _DAY),
            Certificate.NOT_YET: (now + 300 * _DAY, now + 365 * _DAY),
        }.get(kind, (now - _DAY, now + _DAY))
        name = "another.test" if kind is Certificate.OTHER_NAME else host
        signer = key if kind is Certificate.SELF_SIGNED else self._key
        found = self._signed(name, key, times, signer=signer)
        chain = _pem(found)
        if kind is Certificate.LONG_CHAIN:
            chain += _pem(self._own) * _LONG_CHAIN
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        file = self._folder / f"{host}.pem"
        file.write_bytes(chain + private)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _signed(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        times: tuple[datetime, datetime],
        *,
        signer: ec.EllipticCurvePrivateKey | None = None,
        is_authority: bool = False,
    ) -> x509.Certificate:
        is_own = signer is key
        usage = x509.BasicConstraints(ca=is_authority, path_length=None)
        return (
            x509.CertificateBuilder()
            .subject_name(_name_of(name))
            .issuer_name(_name_of(name) if is_own else self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(times[0])
            .not_valid_after(times[1])
            .add_extension(usage, critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.DNSName(name.replace(" ", "-"))]), critical=False
            )
            .sign(signer or self._key, hashes.SHA256())
        )


def _name_of(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
