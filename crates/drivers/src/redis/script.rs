//! Lua scripts for actions without a matching command.
//!
//! A document is a hash at the key `COLLECTION:ID`. In a collection with an index, the sorted set at the key
//! `COLLECTION` holds the ids of all documents. A script is one command and runs atomically. It touches one key (two on
//! a single server), so a cluster can move its slot at any time.
//!
//! The driver calls a script by its digest. A node without the script answers NOSCRIPT; the driver then sends the text,
//! which the node caches. Nodes that join under load therefore need no preparation.

use std::sync::LazyLock;

use sha1::{Digest, Sha1};

use super::request::Writer;
use super::resp::{Item, Reader};
use crate::crud::Action;

/// A script and its digest.
#[derive(Debug)]
pub struct Script {
    text: &'static str,
    digest: String,
}

/// Start of the answer of a server without the script.
const UNKNOWN: &[u8] = b"NOSCRIPT ";

/// The actions that may need a script.
const ACTIONS: [Action; 5] = [Action::Create, Action::Index, Action::Update, Action::Upsert, Action::Delete];

/// All scripts.
static SCRIPTS: LazyLock<Vec<Script>> = LazyLock::new(|| {
    let actions = ACTIONS.into_iter().flat_map(|action| [text(action, false), text(action, true)]).flatten();
    actions.chain([SCAN]).map(Script::new).collect()
});

impl Script {
    /// Creates a script with this text and computes its digest, by which nodes know it.
    fn new(text: &'static str) -> Self {
        let digest = Sha1::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { text, digest }
    }

    /// Returns the script for an action on one document; `None` if a plain command suffices. `indexed`: the collection
    /// keeps an index of its ids.
    pub fn of(action: Action, indexed: bool) -> Option<&'static Self> {
        text(action, indexed).map(Self::known)
    }

    /// Returns the script that reads documents in the order of their ids. Key: the collection's index. Arguments: the
    /// id to start at, the maximum number of documents, and the prefix of their keys. It returns a list with the names
    /// and values of each document.
    pub fn scan() -> &'static Self {
        Self::known(SCAN)
    }

    /// Returns the script with this text. Panics unless it is one of [`SCRIPTS`].
    fn known(text: &str) -> &'static Self {
        SCRIPTS.iter().find(|script| std::ptr::eq(script.text, text) || script.text == text).expect("it is a script")
    }

    /// Appends the first two words of a command that runs it by its digest.
    pub fn call(&self, writer: &mut Writer) {
        writer.word("EVALSHA");
        writer.word(&self.digest);
    }
}

/// Returns whether an answer says that the node lacks the script.
pub fn is_unknown(item: Option<Item<'_>>) -> bool {
    matches!(item, Some(Item::Error(words)) if words.starts_with(UNKNOWN))
}

/// Returns the command with the script's text instead of its digest; `None` if it does not run one of these scripts.
pub fn spelled_out(command: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(command);
    let words = reader.list()?;
    if reader.text()? != b"EVALSHA" {
        return None;
    }
    let digest = reader.text()?;
    let script = SCRIPTS.iter().find(|script| script.digest.as_bytes() == digest)?;
    let (mut spelled_out, mut word) = (Vec::new(), Vec::new());
    let mut writer = Writer::new(&mut spelled_out, &mut word);
    writer.begin(words);
    writer.word("EVAL");
    writer.word(script.text);
    spelled_out.extend_from_slice(reader.rest());
    Some(spelled_out)
}

/// Returns the text of the script for an action on one document; `None` if a plain command suffices. The script returns
/// 1 on success, or 0 if the presence or absence of the document forbids the action. Keys: the document's, then the
/// index if the collection has one. Arguments: the document's id if there is an index, then names and values.
fn text(action: Action, indexed: bool) -> Option<&'static str> {
    Some(match (action, indexed) {
        (Action::Create, false) => {
            "if redis.call('EXISTS',KEYS[1])==1 then return 0 end redis.call('HSET',KEYS[1],unpack(ARGV)) return 1"
        }
        (Action::Create, true) => {
            "if redis.call('EXISTS',KEYS[1])==1 then return 0 end redis.call('HSET',KEYS[1],unpack(ARGV,2)) \
             redis.call('ZADD',KEYS[2],0,ARGV[1]) return 1"
        }
        (Action::Update, false) => {
            "if redis.call('EXISTS',KEYS[1])==0 then return 0 end redis.call('HSET',KEYS[1],unpack(ARGV)) return 1"
        }
        (Action::Update, true) => {
            "if redis.call('EXISTS',KEYS[1])==0 then return 0 end redis.call('HSET',KEYS[1],unpack(ARGV,2)) return 1"
        }
        (Action::Index, false) => "redis.call('DEL',KEYS[1]) redis.call('HSET',KEYS[1],unpack(ARGV)) return 1",
        (Action::Index, true) => {
            "redis.call('DEL',KEYS[1]) redis.call('HSET',KEYS[1],unpack(ARGV,2)) \
             redis.call('ZADD',KEYS[2],0,ARGV[1]) return 1"
        }
        (Action::Upsert, true) => {
            "redis.call('HSET',KEYS[1],unpack(ARGV,2)) redis.call('ZADD',KEYS[2],0,ARGV[1]) return 1"
        }
        (Action::Delete, true) => "redis.call('ZREM',KEYS[2],ARGV[1]) return redis.call('DEL',KEYS[1])",
        (Action::Upsert | Action::Delete, false) => return None,
    })
}

/// Returns up to ARGV[2] documents in order, starting at the id ARGV[1] in the index KEYS[1]. ARGV[3] is the prefix of
/// the documents' keys.
const SCAN: &str = "local ids=redis.call('ZRANGE',KEYS[1],'['..ARGV[1],'+','BYLEX','LIMIT',0,ARGV[2]) \
    for i,id in ipairs(ids) do ids[i]=redis.call('HGETALL',ARGV[3]..id) end return ids";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_called_by_its_digest_and_spelled_out_where_that_is_not_known() {
        let script = Script::of(Action::Create, false).unwrap();
        assert_eq!(script.digest.len(), 40);
        // Expected value: `printf "return 1" | sha1sum`.
        assert_eq!(Script::new("return 1").digest, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        let (mut command, mut word) = (Vec::new(), Vec::new());
        let mut writer = Writer::new(&mut command, &mut word);
        writer.begin(5);
        script.call(&mut writer);
        ["1", "c:7", "\r\n"].into_iter().for_each(|word| writer.word(word));
        let text = spelled_out(&command).unwrap();
        let mut reader = Reader::new(&text);
        assert_eq!(reader.list(), Some(5));
        let words: Vec<_> = std::iter::from_fn(|| reader.text()).collect();
        assert_eq!(words, [b"EVAL", script.text.as_bytes(), b"1", b"c:7", b"\r\n"]);
        assert!(spelled_out(&text).is_none() && spelled_out(b"*1\r\n$4\r\nPING\r\n").is_none());
        assert!(spelled_out(b"*3\r\n$7\r\nEVALSHA\r\n$1\r\nx\r\n$1\r\n0\r\n").is_none(), "the user's own script");
    }

    /// Checks that the digests of all scripts differ.
    #[test]
    fn each_script_has_a_digest_of_its_own() {
        let mut digests: Vec<_> = SCRIPTS.iter().map(|script| &script.digest).collect();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), SCRIPTS.len());
        assert!(Script::of(Action::Upsert, false).is_none());
    }
}
