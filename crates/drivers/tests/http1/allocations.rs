//! In the steady state a request allocates nothing: what is measured is the store, not the generator's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use loadframe_engine::draw::Draw;
use loadframe_engine::driver::Driver;
use serde_json::{Value, json};

use crate::scripted::{Client, Server, answer};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many allocations 100 requests make after as many to get warm. `extra`: what the target has besides its host.
fn allocations(form: &Value, body: &str, extra: &Value) -> u64 {
    let body = answer("200 OK", body);
    let server = Server::play(move |listener| {
        let mut peer = listener.accept();
        while peer.request().is_some() {
            peer.send(&body);
        }
    });
    let mut target = json!({"driver": "search", "hosts": [server.host]});
    target.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let mut client = Client::of(&serde_json::from_value(target).unwrap(), 0);
    let operation = client.driver.map(form, &client.context).unwrap();
    let Client { driver, connection, context, runtime } = &mut client;
    let count = runtime.block_on(async {
        let mut before = 0;
        // From 1000 on, so that no number gets a digit more.
        for k in 1000..1200 {
            if k == 1100 {
                before = ALLOCATIONS.with(Cell::get);
            }
            let reply = driver.execute(connection, &operation, context, &Draw::new(1, 2, k)).await;
            assert!(reply.outcome.is_ok(), "{:?}", reply.outcome);
        }
        ALLOCATIONS.with(Cell::get) - before
    });
    drop(client);
    server.finish();
    count
}

#[test]
fn a_request_allocates_nothing() {
    let hits = r#"{"timed_out":false,"_shards":{"failed":0},"hits":{"total":{"value":1},"hits":[{"_id":"1"}]}}"#;
    for (form, body) in [
        (json!({"search": {"collection": "c", "body": {"a": 1}}}), hits),
        (json!({"search": {"collection": "c", "body": {"a": "${k}"}}}), hits),
        (json!({"get": {"collection": "c", "id": "${k}"}}), "{}"),
        (json!({"bulk": {"collection": "c", "corpus": "trips", "size": 100}}), r#"{"errors":false,"items":[]}"#),
    ] {
        for extra in [json!({}), json!({"compress": true, "auth": {"bearer": "token"}})] {
            assert_eq!(allocations(&form, body, &extra), 0, "{form} with {extra}");
        }
    }
}
