//! Number of documents that a plan requires from a corpus's files.

use std::fmt;

use crate::plan::PlanError;

/// Required and maximum number of documents.
#[derive(Clone, Copy, Debug, Default)]
pub struct DocumentLimits {
    /// Required number, within `at_most`. No more are read.
    pub documents: Option<u64>,
    /// Maximum number.
    pub at_most: Option<u64>,
}

impl DocumentLimits {
    /// Returns the maximum number of documents; `None` if unlimited.
    pub fn most(self) -> Option<u64> {
        [self.documents, self.at_most].into_iter().flatten().min()
    }

    /// Fails if more than `present` documents are required, for example because files are truncated. `files`: start of
    /// the message, such as "a.json: the file has".
    pub fn check(self, present: u64, files: fmt::Arguments<'_>) -> Result<(), PlanError> {
        let Some(needed) = self.documents.and(self.most()).filter(|needed| *needed > present) else { return Ok(()) };
        let s = if present == 1 { "" } else { "s" };
        let are = if needed == 1 { "is" } else { "are" };
        Err(PlanError::new(format!(
            "{files} {present} document{s}, and {needed} {are} needed; check that nothing is missing"
        )))
    }
}
