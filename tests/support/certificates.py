"""TLS for servers on loopback."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_DAY = timedelta(days=1)


def server_context(folder: Path) -> ssl.SSLContext:
    """A server's context with a certificate for h.test that nobody vouches for, server.pem."""
    key = ec.generate_private_key(ec.SECP256R1())
    path = folder / "server.pem"
    path.write_bytes(_pem(_builder("h.test", key).sign(key, hashes.SHA256()), key))
    return _context(path)


class Authority:
    """Certificate authority of a test. `path` has its certificate, for clients that trust it."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self._certificate = (
            _builder(name, self._key)
            .add_extension(constraints, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def certify(self, name: str = "127.0.0.1") -> Path:
        """Return a file with a certificate for a name or an address, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _builder(name, key, issuer=self._name).sign(self._key, hashes.SHA256())
        path = self._folder / f"{self._name}-{name}.pem"
        path.write_bytes(_pem(certificate, key))
        return path

    def server_context(self, name: str = "127.0.0.1") -> ssl.SSLContext:
        """Return the context of a server of that name or address."""
        return _context(self.certify(name))


def _builder(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str | None = None
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    try:
        alternative: x509.GeneralName = x509.IPAddress(ip_address(name))
    except ValueError:
        alternative = x509.DNSName(name)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(issuer or name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _context(path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context
