"""Workloads whose values a client encrypts before the store gets them: what changes in the corpus, in the definition of
collections and in the searches. The values themselves the engine encrypts (`crates/engine/src/workload/cipher.rs`).
"""

from loadframe.workload.encryption.fields import ClientEncryption
from loadframe.workload.encryption.rewriting import encrypted

__all__ = ["ClientEncryption", "encrypted"]
