//! Contents of requests: variables, templates, corpora, events, encryption, journeys and mixes.

pub mod cipher;
pub mod corpus;
pub mod event;
pub mod journey;
pub mod json_pointer;
pub mod numbering;
pub mod permuted_mix;
pub mod text;
pub mod variables;
