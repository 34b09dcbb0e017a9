//! The outbox: every route gets each message, in order, and who has it is not asked again.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use windrow_domain::Queue;
use windrow_domain::attempt::Failure;
use windrow_engine::deliver::{OutgoingMessage, Patterns, Publisher, Route, Routes};
use windrow_engine::messages::{Context, Effects, Unrouted};
use windrow_store::message::NewMessage;

use crate::support::*;

crate::on_both_stores! {
    a_partial_failure_repeats_only_what_is_left,
    a_message_without_a_publisher_is_a_dead_letter_unless_somebody_said_otherwise,
    a_message_is_done_when_all_its_consumers_are,
    consumers_of_one_message_make_ids_of_their_own,
}

/// Keeps what it is given; fails so many times before that.
struct Shelf {
    name: &'static str,
    failures: AtomicU32,
    got: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Publisher for Shelf {
    fn name(&self) -> &str {
        self.name
    }

    async fn publish(&self, outgoing: &OutgoingMessage) -> Result<(), Failure> {
        let left = |left: u32| left.checked_sub(1);
        if self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_ok() {
            return Err(Failure::unavailable("connection_lost", "gone"));
        }
        self.got.lock().unwrap().push(outgoing.id.clone());
        Ok(())
    }
}

type Got = Arc<Mutex<Vec<String>>>;

fn shelf(name: &'static str, failures: u32, patterns: Patterns) -> (Route, Got) {
    let got = Got::default();
    let shelf = Shelf { name, failures: AtomicU32::new(failures), got: got.clone() };
    (Route::new(patterns, Arc::new(shelf)), got)
}

async fn a_partial_failure_repeats_only_what_is_left(backend: Backend) {
    let store = store(backend).await;
    let (good, good_got) = shelf("good", 0, all());
    let (weak, weak_got) = shelf("weak", 3, all());
    let routes = Routes::new(vec![good, weak]).unwrap();
    let runner = runner(store.clone()).routes(routes).start().await.unwrap();
    let messages = ["1", "2", "3"].map(|id| sent(Queue::Outbox, "s", id));
    runner.client().send(messages.into()).await.unwrap();
    settle(&*store).await;
    assert_eq!(*good_got.lock().unwrap(), ["1", "2", "3"]);
    assert_eq!(*weak_got.lock().unwrap(), ["1", "2", "3"]);
    assert_eq!(runner.gauges().retries, 3);
}

async fn a_message_without_a_publisher_is_a_dead_letter_unless_somebody_said_otherwise(
    backend: Backend,
) {
    let store = store(backend).await;
    let first = runner(store.clone()).start().await.unwrap();
    first.client().send(vec![sent(Queue::Outbox, "s", "1")]).await.unwrap();
    settle(&*store).await;
    let letters = dead(&*store).await;
    assert_eq!(letters[0].error, "no publisher for test");
    assert_eq!(letters[0].message.attempts, options().retry.attempts_max);
    first.stop().await;
    let drops = options().unrouted(Unrouted::Drop);
    let second = runner(store.clone()).options(drops).start().await.unwrap();
    second.client().send(vec![sent(Queue::Outbox, "s", "2")]).await.unwrap();
    settle(&*store).await;
    assert_eq!(dead(&*store).await.len(), 1);
    second.stop().await;
    let keeps = options().unrouted(Unrouted::Keep);
    let third = runner(store.clone()).options(keeps).start().await.unwrap();
    third.client().send(vec![sent(Queue::Outbox, "s", "3")]).await.unwrap();
    until("it waits", || async {
        third.gauges().retries > 2 * options().retry.attempts_max as u64
    })
    .await;
    assert!(!is_empty(&*store).await);
}

async fn a_message_is_done_when_all_its_consumers_are(backend: Backend) {
    let (store, log) = (store(backend).await, Log::default());
    let seen = log.clone();
    let projection = Does(move |context: Context, _| {
        seen.add(&context);
        Box::pin(async { Ok(Effects::none()) }) as _
    });
    let nobody = Patterns { kinds: vec!["none".into()], ..Patterns::default() };
    let (hook, got) = shelf("hook", 1, nobody.clone());
    let runner = runner(store.clone())
        .routes(Routes::new(vec![hook]).unwrap())
        .consumer("projection", nobody, projection)
        .start()
        .await
        .unwrap();
    let consumers = vec!["hook".to_owned(), "projection".to_owned()];
    let message = NewMessage { consumers, ..sent(Queue::Outbox, "s", "1") };
    runner.client().send(vec![message]).await.unwrap();
    settle(&*store).await;
    assert_eq!((log.count("1"), got.lock().unwrap().len()), (1, 1));
}

/// Two that ask for the same in the same words both mean it: the second is no repeat of the first.
async fn consumers_of_one_message_make_ids_of_their_own(backend: Backend) {
    let store = store(backend).await;
    let give = || {
        Does(|context: Context, _| {
            Box::pin(async move {
                let call = context.ask("wallet", "w", "deposit", r#"{"cents":1}"#)?;
                Ok(Effects::none().ask(call))
            }) as _
        })
    };
    let build = runner(store.clone()).typed(Wallet);
    let build = build.consumer("one", all(), give()).consumer("two", all(), give());
    let runner = build.start().await.unwrap();
    let consumers = vec!["one".to_owned(), "two".to_owned()];
    let message = NewMessage { consumers, ..inbox("s", "1") };
    runner.client().send(vec![message]).await.unwrap();
    settle(&*store).await;
    assert_eq!(balance(&runner.client(), "w", "b").await, reply("2"));
}
