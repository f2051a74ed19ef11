//! Values that a request draws: a variable is a pure function of a [`crate::draw::Draw`].
