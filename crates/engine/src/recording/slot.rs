//! The places that a plan gives to what is recorded: one for each stream's operation, and for each of its parts.

/// A stream's operation, or a part of one, as the records name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The stream's name.
    pub stream: String,
    /// The operation's name.
    pub operation: String,
    /// Which of the operation's parts; `None` for the operation itself.
    pub part: Option<&'static str>,
    /// Whether it stands for several requests of a user, which are recorded for themselves, too.
    pub of_several: bool,
}

impl Slot {
    /// Whether sums over a phase count it: parts, and what stands for several requests, would be counted twice.
    pub fn counts(&self) -> bool {
        self.part.is_none() && !self.of_several
    }

    /// `OPERATION` or `OPERATION.PART`.
    pub fn name(&self) -> String {
        let Self { operation, part, .. } = self;
        part.map_or_else(|| operation.clone(), |part| format!("{operation}.{part}"))
    }
}
