//! Slots: indices of recorded items. Each operation of a stream has one, and each of its parts.

/// An operation of a stream, or a part of one, as named in the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The stream's name.
    pub stream: String,
    /// The operation's name.
    pub operation: String,
    /// The part's name; `None` for the operation itself.
    pub part: Option<&'static str>,
    /// Whether it times several requests of a user together, which are also recorded individually.
    pub of_several: bool,
}

impl Slot {
    /// Returns whether it counts in the phase's totals: true for operations, false for parts and timed groups, which
    /// would count requests twice.
    pub fn counts(&self) -> bool {
        self.part.is_none() && !self.of_several
    }

    /// Returns `OPERATION` or `OPERATION.PART`.
    pub fn name(&self) -> String {
        let Self { operation, part, .. } = self;
        part.map_or_else(|| operation.clone(), |part| format!("{operation}.{part}"))
    }
}
