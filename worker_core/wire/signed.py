"""What a coordinator signs with the key pinned at pairing (JWS compact, alg Ed25519), and names used in proofs.

Every signed object names its kind, the worker, the thumbprint (RFC 7638) of the worker's key and the coordinator's
generation, and is refused when one of them does not match, so that nothing signed can be replayed elsewhere.
"""

from worker_core.wire.codec import Count, Message, Sha256

ALGORITHM = "Ed25519"
PROOF_TYPE = "dpop+jwt"
GENERATION_HEADER = "Stoker-Gen"
NONCE_HEADER = "DPoP-Nonce"
PROOF_HEADER = "DPoP"


class Input(Message):
    """A file a job needs, by content."""

    name: str
    sha256: Sha256
    size: Count


class Offer(Message, tag_field="typ", tag="offer"):
    """Signed bytes of a job offer (W1): what may be accepted, and the hash of everything that would run."""

    worker_id: str
    thumbprint: str
    gen: int
    attempt_id: str
    job_id: str
    epoch: int
    kind: str
    spec_sha256: Sha256
    inputs: tuple[Input, ...] = ()
    accept_within: float = 30.0


class Revocation(Message, tag_field="typ", tag="revocation"):
    """Signed bytes of a revocation: the only thing that may wipe a worker."""

    worker_id: str
    thumbprint: str
    gen: int
    revoked_at: str
    by: str
    reason: str = ""


class NextKey(Message, tag_field="typ", tag="next-key"):
    """Signed bytes that name the key the coordinator will sign with after the present one (JWK members)."""

    worker_id: str
    thumbprint: str
    gen: int
    kty: str
    crv: str
    x: str
