"""Client-side encryption: rewrites corpora, collection definitions and searches of a workload.

The engine encrypts the values (`crates/engine/src/workload/cipher.rs`).
"""

from loadframe.workload.encryption.fields import ClientEncryption
from loadframe.workload.encryption.rewriting import encrypted

__all__ = ["ClientEncryption", "encrypted"]
