//! How many documents a plan wants of a corpus's files.

use std::fmt;

use crate::plan::PlanError;

/// How many documents a plan wants: those that there must be, and a bound on how many are taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The files must have this many, as far as they are taken; no more are read.
    pub documents: Option<u64>,
    /// No more than this many are taken.
    pub at_most: Option<u64>,
}

impl Wanted {
    /// The largest number of documents that are taken; `None` if the files alone decide.
    pub fn most(self) -> Option<u64> {
        [self.documents, self.at_most].into_iter().flatten().min()
    }

    /// Refuses files that have fewer documents than are needed, such as one that was cut off. `files` says which files
    /// and that they have: "a.json: the file has".
    pub fn check(self, present: u64, files: fmt::Arguments<'_>) -> Result<(), PlanError> {
        let Some(needed) = self.documents.and(self.most()).filter(|needed| *needed > present) else { return Ok(()) };
        let s = if present == 1 { "" } else { "s" };
        let are = if needed == 1 { "is" } else { "are" };
        Err(PlanError::new(format!(
            "{files} {present} document{s}, and {needed} {are} needed; check that nothing is missing"
        )))
    }
}
