//! Vbuckets: the mapping of keys to vbuckets, and of vbuckets to nodes according to the bucket's configuration.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use serde::Deserialize;

/// Maximum number of vbuckets in a bucket.
const MOST: usize = 1024;
/// Marks a vbucket without a node.
const NOBODY: u16 = u16::MAX;

/// CRC-32 table as in zlib, for the reflected polynomial 0xedb88320.
const TABLE: [u32; 256] = table();

/// Computes [`TABLE`], at compile time.
const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { (crc >> 1) ^ 0xedb8_8320 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// Returns the CRC-32 of `bytes`, as zlib computes it.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)])
}

/// The node number of each vbucket. All clients share it; updates are atomic per vbucket only.
#[derive(Debug)]
pub struct Vbuckets {
    nodes: Box<[AtomicU16]>,
    count: AtomicUsize,
}

impl Vbuckets {
    /// Creates an empty mapping.
    pub fn new() -> Self {
        Self { nodes: (0..MOST).map(|_| AtomicU16::new(NOBODY)).collect(), count: AtomicUsize::new(0) }
    }

    /// Returns whether the mapping has been set.
    pub fn are_known(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Returns the vbucket of a key, below the number of vbuckets; 0 while the mapping is unknown.
    pub fn of(&self, key: &[u8]) -> u16 {
        let count = self.count.load(Ordering::Acquire).max(1);
        (((crc32(key) >> 16) & 0x7fff) as usize % count) as u16
    }

    /// Returns the number of the node that owns a vbucket; `None` if no node does, or it is unknown.
    pub fn node(&self, vbucket: u16) -> Option<u16> {
        Some(self.nodes.get(usize::from(vbucket))?.load(Ordering::Relaxed)).filter(|node| *node != NOBODY)
    }

    /// Sets the node of each vbucket, and the number of vbuckets; vbuckets above the protocol's maximum are ignored.
    /// `None` means that no node owns it.
    pub fn set(&self, owners: impl ExactSizeIterator<Item = Option<u16>>) {
        let count = owners.len().min(MOST);
        for (known, owner) in self.nodes.iter().zip(owners) {
            known.store(owner.unwrap_or(NOBODY), Ordering::Relaxed);
        }
        self.count.store(count, Ordering::Release);
    }
}

/// The fields of a bucket's configuration that the driver uses.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// Revision, which increases with each change.
    #[serde(default)]
    pub rev: i64,
    v_bucket_server_map: ServerMap,
    #[serde(default)]
    nodes_ext: Vec<NodeExt>,
}

/// The nodes with documents, and the nodes of each vbucket.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerMap {
    /// `host:port` of each key-value service. `$HOST` stands for the host that sent the configuration.
    server_list: Vec<String>,
    /// For each vbucket, indices in `server_list`: the active node, then its replicas; -1 for none.
    v_bucket_map: Vec<Vec<i64>>,
}

/// A node and its services.
#[derive(Debug, Deserialize)]
struct NodeExt {
    hostname: Option<String>,
    services: Services,
}

/// Ports of a node's services. The `SSL` variants speak TLS.
#[derive(Debug, Deserialize)]
struct Services {
    mgmt: Option<u16>,
    #[serde(rename = "mgmtSSL")]
    mgmt_tls: Option<u16>,
    kv: Option<u16>,
    #[serde(rename = "kvSSL")]
    kv_tls: Option<u16>,
    n1ql: Option<u16>,
    #[serde(rename = "n1qlSSL")]
    n1ql_tls: Option<u16>,
}

/// `host:port` of a node's service.
#[derive(Debug, PartialEq, Eq)]
pub struct ServiceAddress {
    /// Address of the service.
    pub address: String,
    /// Address of the node's management service, which users know.
    pub name: String,
}

impl Configuration {
    /// Parses JSON. Returns `None` if it is not a configuration of a bucket with vbuckets.
    pub fn parse(json: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(json)
            .ok()
            .filter(|configuration| !configuration.v_bucket_server_map.v_bucket_map.is_empty())
    }

    /// Returns the addresses of the nodes with vbuckets, in index order. `host` is the host that sent the
    /// configuration; `tls` selects encrypted ports.
    pub fn seats(&self, host: &str, tls: bool) -> Vec<ServiceAddress> {
        let with_host = |text: &str| text.replace("$HOST", host);
        let seat = |address: &String| {
            let kv = with_host(address);
            let ext = self.nodes_ext.iter().find(|ext| ext.kv(host, false).as_ref() == Some(&kv));
            let name = ext.and_then(|ext| ext.management(host, tls)).unwrap_or_else(|| kv.clone());
            let kv = if tls { ext.and_then(|ext| ext.kv(host, true)).unwrap_or(kv) } else { kv };
            ServiceAddress { address: kv, name }
        };
        self.v_bucket_server_map.server_list.iter().map(seat).collect()
    }

    /// Returns, for each vbucket, the index in `seats` of its active node; `None` if it has none.
    pub fn owners(&self) -> impl ExactSizeIterator<Item = Option<usize>> {
        let owner = |places: &Vec<i64>| places.first().and_then(|place| usize::try_from(*place).ok());
        self.v_bucket_server_map.v_bucket_map.iter().map(owner)
    }

    /// Returns the addresses of the query service; empty if no node has it. `host` is the host that sent the
    /// configuration; `tls` selects encrypted ports.
    pub fn query(&self, host: &str, tls: bool) -> Vec<ServiceAddress> {
        query(&self.nodes_ext, host, tls)
    }
}

/// All nodes of a cluster and their services.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeServices {
    nodes_ext: Vec<NodeExt>,
}

impl NodeServices {
    /// Parses JSON. Returns `None` if it is not a list of nodes.
    pub fn parse(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// Returns the addresses of the query service; empty if no node has it. `host` is the host that sent the list;
    /// `tls` selects encrypted ports.
    pub fn query(&self, host: &str, tls: bool) -> Vec<ServiceAddress> {
        query(&self.nodes_ext, host, tls)
    }
}

/// Returns the addresses of the query service on these nodes. `host` replaces a missing host name; `tls` selects
/// encrypted ports.
fn query(nodes: &[NodeExt], host: &str, tls: bool) -> Vec<ServiceAddress> {
    let seat = |ext: &NodeExt| {
        let address = ext.at(host, if tls { ext.services.n1ql_tls } else { ext.services.n1ql })?;
        Some(ServiceAddress { name: ext.management(host, tls).unwrap_or_else(|| address.clone()), address })
    };
    nodes.iter().filter_map(seat).collect()
}

impl NodeExt {
    /// Returns the node's `name:port`; `None` without a port. `host` replaces a missing host name.
    fn at(&self, host: &str, port: Option<u16>) -> Option<String> {
        let name = self.hostname.as_deref().unwrap_or(host);
        let bare = name.contains(':') && !name.starts_with('[');
        port.map(|port| if bare { format!("[{name}]:{port}") } else { format!("{name}:{port}") })
    }

    /// Returns the `name:port` of the key-value service, or `None` if the node lacks it. `host` replaces a missing host
    /// name; `tls` selects the encrypted port.
    fn kv(&self, host: &str, tls: bool) -> Option<String> {
        self.at(host, if tls { self.services.kv_tls } else { self.services.kv })
    }

    /// Returns the `name:port` of the management service, or `None` if the node lacks it. `host` replaces a missing
    /// host name; `tls` selects the encrypted port.
    fn management(&self, host: &str, tls: bool) -> Option<String> {
        self.at(host, if tls { self.services.mgmt_tls } else { self.services.mgmt })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Checks the CRC-32 of the standard check value.
    #[test]
    fn the_sum_is_that_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_key_is_in_one_of_as_many_vbuckets_as_there_are() {
        let vbuckets = Vbuckets::new();
        assert!(!vbuckets.are_known());
        assert_eq!(vbuckets.node(vbuckets.of(b"hello")), None);
        vbuckets.set((0..1024).map(|number| Some(number % 3)));
        // (0xcbf43926 >> 16) & 0x7fff = 0x4bf4; its low 10 bits are the vbucket.
        assert_eq!(vbuckets.of(b"123456789"), 0x3f4);
        assert_eq!(vbuckets.node(0x3f4), Some(0x3f4 % 3));
        vbuckets.set([Some(7), None].into_iter());
        assert_eq!(vbuckets.of(b"123456789"), 0);
        assert_eq!((vbuckets.node(0), vbuckets.node(1)), (Some(7), None));
    }

    #[test]
    fn a_configuration_lists_nodes_and_vbucket_owners() {
        let json = json!({
            "nodesExt": [
                {"services": {"mgmt": 8091, "mgmtSSL": 18091, "kv": 11210, "kvSSL": 11207, "n1ql": 8093}},
                {"hostname": "b", "services": {"mgmt": 9091, "kv": 12000, "fts": 1}},
            ],
            "vBucketServerMap": {"serverList": ["$HOST:11210", "b:12000"], "vBucketMap": [[0, 1], [1, 0], [-1, -1]]},
        });
        let configuration = Configuration::parse(json.to_string().as_bytes()).unwrap();
        let seat = |kv: &str, name: &str| ServiceAddress { address: kv.to_owned(), name: name.to_owned() };
        assert_eq!(configuration.seats("a", false), [seat("a:11210", "a:8091"), seat("b:12000", "b:9091")]);
        assert_eq!(configuration.seats("a", true), [seat("a:11207", "a:18091"), seat("b:12000", "b:12000")]);
        assert_eq!(configuration.owners().collect::<Vec<_>>(), [Some(0), Some(1), None]);
        assert_eq!(configuration.query("a", false), [seat("a:8093", "a:8091")]);
        assert!(Configuration::parse(b"{}").is_none());
        assert!(Configuration::parse(b"not found").is_none());
    }
}
