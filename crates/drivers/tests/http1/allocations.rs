//! Requests in the steady state allocate no memory, so the allocator does not affect measurements.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use loadframe_drivers::http::Http;
use loadframe_drivers::search::Search;
use loadframe_engine::driver::Driver;
use loadframe_engine::util::draw::Draw;
use serde_json::{Value, json};
use tokio_rustls::rustls::ServerConfig;

use crate::certificates::Authority;
use crate::ingest::bids;
use crate::scripted::{Client, Server, answer};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts the allocations of 100 requests, after 100 warm-up requests. `extra`: settings of the target besides its
/// host.
fn allocations<D: Driver>(form: &Value, body: &str, extra: &Value, tls: Option<Arc<ServerConfig>>) -> u64 {
    let body = answer("200 OK", body);
    let server = Server::play(move |listener| {
        let mut peer = tls.map_or_else(|| listener.accept(), |config| listener.accept_tls(&config));
        while peer.request().is_some() {
            peer.send(&body);
        }
    });
    let mut target = json!({"driver": "", "hosts": [server.host]});
    target.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let variables = json!({"k": {"sequential": {"from": 0}}, "token": {"captured": {}}});
    let mut client = Client::<D>::with(&serde_json::from_value(target).unwrap(), 0, &variables);
    let operation = client.driver.map(form, &client.context).unwrap();
    let Client { driver, connection, context, runtime } = &mut client;
    let count = runtime.block_on(async {
        let mut before = 0;
        // Starts at 1000, so that the number of digits stays the same.
        for k in 1000..1200 {
            if k == 1100 {
                before = ALLOCATIONS.with(Cell::get);
            }
            let reply = driver.execute(connection, &operation, context, &Draw::new(1, 2, k), None).await;
            assert!(reply.outcome.is_ok(), "{:?}", reply.outcome);
        }
        ALLOCATIONS.with(Cell::get) - before
    });
    drop(client);
    server.finish();
    count
}

const HITS: &str = r#"{"timed_out":false,"_shards":{"failed":0},"hits":{"total":{"value":1},"hits":[{"_id":"1"}]}}"#;

#[test]
fn a_request_allocates_nothing() {
    for (form, body) in [
        (json!({"search": {"collection": "c", "body": {"a": 1}}}), HITS),
        (json!({"search": {"collection": "c", "body": {"a": "${k}"}}}), HITS),
        (json!({"get": {"collection": "c", "id": "${k}"}}), "{}"),
        (json!({"read": {"collection": "c", "id": "user${k}", "fields": ["a"]}}), "{}"),
        (json!({"insert": {"collection": "c", "id": "${k}", "document": {"a": "${k}"}}}), "{}"),
        (json!({"upsert": {"collection": "c", "id": "${k}", "document": {"a": "${k}"}}}), "{}"),
        (json!({"scan": {"collection": "c", "from": "user${k}", "count": 10, "by": "key"}}), HITS),
        (json!({"search": {"collection": "c"}, "assert": {"min_hits": 1}}), HITS),
        (json!({"bulk": {"collection": "c", "corpus": "trips", "size": 100}}), r#"{"errors":false,"items":[]}"#),
        (
            json!({"bulk": {"collection": "c", "corpus": "trips", "size": 100, "conflicts": "random"}}),
            r#"{"errors":false,"items":[]}"#,
        ),
        (
            json!({"bulk": {"collection": "c", "corpus": "trips", "size": 100, "action": "upsert", "id": "vendor_id"}}),
            r#"{"errors":false,"items":[]}"#,
        ),
    ] {
        for extra in [json!({}), json!({"compress": true, "auth": {"bearer": "token"}})] {
            assert_eq!(allocations::<Search>(&form, body, &extra, None), 0, "{form} with {extra}");
        }
    }
}

#[test]
fn clients_that_wait_for_a_shared_connection_allocate_nothing() {
    let server = Server::play(|listener| {
        let mut peer = listener.accept();
        for _ in 0..400 {
            peer.request().unwrap();
            peer.send(answer("200 OK", HITS));
        }
    });
    let target = json!({"driver": "search", "hosts": [server.host], "connections": 1});
    let mut client = Client::<Search>::of(&serde_json::from_value(target).unwrap(), 0);
    let form = json!({"search": {"collection": "c", "body": {"a": "${k}"}}});
    let operation = client.driver.map(&form, &client.context).unwrap();
    let mut second = client.driver.connection(1);
    let Client { driver, connection: first, context, runtime } = &mut client;
    let count = runtime.block_on(async {
        let mut before = 0;
        for k in 1000..1200 {
            if k == 1100 {
                before = ALLOCATIONS.with(Cell::get);
            }
            let draw = Draw::new(1, 2, k);
            let (one, other) = tokio::join!(
                driver.execute(first, &operation, context, &draw, None),
                driver.execute(&mut second, &operation, context, &draw, None)
            );
            assert!(one.outcome.is_ok() && other.outcome.is_ok());
            assert!(other.sent >= one.done, "the second waited for the connection");
        }
        ALLOCATIONS.with(Cell::get) - before
    });
    server.finish();
    assert_eq!(count, 0);
}

#[test]
fn a_request_whose_answer_is_taken_from_allocates_nothing() {
    let form = json!({"http": {
        "method": "POST", "path": "/${k}", "headers": {"a": "${k}"}, "body": {"k": "${k}"},
        "capture": {"token": {"json": "/hits/hits/0/_id"}}, "expect": {"status": [200]},
    }});
    assert_eq!(allocations::<Http>(&form, HITS, &json!({}), None), 0);
}

#[test]
fn inside_tls_each_record_costs_a_few() {
    let authority = Authority::new();
    let config = authority.server(&authority.sign("127.0.0.1", 2100), false);
    let form = json!({"search": {"collection": "c", "body": {"a": "${k}"}}});
    let count = allocations::<Search>(&form, HITS, &json!({"tls": {"ca": authority.file()}}), Some(config));
    // Rustls puts each record, one per direction, into its own vector.
    assert!(count <= 400, "{count} for 100 requests");
}

#[test]
fn a_batch_allocates_for_the_names_of_its_indices_and_not_for_its_events() {
    let server = Server::play(|listener| {
        let mut peer = listener.accept();
        // The client lists the indices once.
        for number in 0..201 {
            peer.request().unwrap();
            peer.send(answer("200 OK", if number == 0 { "{}" } else { r#"{"errors":false,"items":[]}"# }));
        }
    });
    let mut client = Client::new(&[&server.host], 0);
    let form = json!({"take_in": {"collection": "ads", "daily": "event"}});
    let operation = client.driver.map(&form, &client.context).unwrap();
    let batch = bids(&[r#"{"type":"bid"}"#; 100]);
    let places: Vec<u32> = (0..50).collect();
    let Client { driver, connection, context, runtime } = &mut client;
    let count = runtime.block_on(async {
        let mut before = 0;
        for number in 0..200 {
            if number == 100 {
                before = ALLOCATIONS.with(Cell::get);
            }
            let only = (number % 2 == 0).then_some(&places[..]);
            let reply = driver.ingest(connection, &operation, context, &batch, only).await;
            assert!(reply.outcome.is_ok(), "{:?}", reply.outcome);
        }
        ALLOCATIONS.with(Cell::get) - before
    });
    server.finish();
    // Two per batch: the newest instants of its days, and the name of an index.
    assert_eq!(count, 2 * 100);
}
