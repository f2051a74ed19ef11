//! Reports the panics of a thread to a listener.
//!
//! A runtime catches the panic of a task. A task that is not awaited then ends silently, although the load
//! has lost a client. The hook is called for each panic, with its source location, before anything can catch
//! it.

use std::cell::RefCell;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;

type Listener = Box<dyn Fn(String)>;

thread_local! {
    static LISTENER: RefCell<Option<Listener>> = const { RefCell::new(None) };
}

/// Guard that listens to the panics of its thread until it is dropped.
pub struct Listening(());

/// Passes the message of each panic of this thread to `listener`, until the guard is dropped.
/// The message does not go to standard error. Replaces an earlier listener of the thread. The first call installs a
/// panic hook for the process.
pub fn listen(listener: impl Fn(String) + 'static) -> Listening {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            let heard = LISTENER.try_with(|listener| match listener.try_borrow().as_deref() {
                Ok(Some(listener)) => {
                    listener(words(panic));
                    true
                }
                _ => false,
            });
            if !heard.unwrap_or(false) {
                before(panic);
            }
        }));
    });
    LISTENER.set(Some(Box::new(listener)));
    Listening(())
}

impl Drop for Listening {
    /// Ends the listening; later panics go to standard error.
    fn drop(&mut self) {
        LISTENER.set(None);
    }
}

/// Returns the message of a panic, with its file and line.
fn words(panic: &PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line())).unwrap_or_default();
    format!("{}{place}", text.unwrap_or("a panic without a message"))
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_panic_that_a_runtime_catches_is_heard_with_its_place() {
        let heard: Rc<RefCell<Vec<String>>> = Rc::default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let tell = heard.clone();
        let listening = listen(move |words| tell.borrow_mut().push(words));
        runtime.block_on(async {
            // Its result is not used.
            tokio::spawn(async { panic!("lost {}", 7) });
            tokio::task::yield_now().await;
        });
        drop(listening);
        let heard = heard.borrow();
        assert!(heard[0].starts_with("lost 7 (") && heard[0].contains("panics.rs:"), "{heard:?}");
        assert_eq!(heard.len(), 1);
    }
}
