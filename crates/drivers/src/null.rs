//! Answers at once: the generator's own ceiling.
