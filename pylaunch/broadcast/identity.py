"""Certificate and key of one broadcast: all its hosts present it to each other, and nobody else has it."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ALWAYS = datetime.datetime(2000, 1, 1), datetime.datetime(9999, 12, 31)  # noqa: DTZ001 - x509 takes UTC
"""Validity: clocks of hosts may be wrong, and no host keeps the certificate after the broadcast."""


def new_identity() -> str:
    """Return a new private key and its self-signed certificate, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pylaunch broadcast")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), *ALWAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return (private + certificate.public_bytes(serialization.Encoding.PEM)).decode()
