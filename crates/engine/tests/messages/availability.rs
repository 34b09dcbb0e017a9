//! Publishers and handlers that are unavailable, or refuse for good: which messages wait, and for how long.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use windrow_domain::attempt::{Class, Failure};
use windrow_domain::retry::{GiveUpPolicy, Policy};
use windrow_domain::{CrashPolicy, Queue};
use windrow_engine::clock::Clock;
use windrow_engine::deliver::{OutgoingMessage, Patterns, Publisher, Route, Routes};
use windrow_engine::messages::http::{Options as Http, Remote};
use windrow_engine::messages::{Context, Effects, HandlerError};
use windrow_store::call::NewCall;
use windrow_store::message::DeadLetter;
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::support::*;

crate::on_both_stores! {
    an_unavailable_receiver_costs_no_attempts_and_is_given_up_on_in_time,
    an_unavailable_handler_fails_no_call,
    a_publisher_that_refused_is_not_asked_again_and_a_replay_goes_only_to_it,
    who_refused_does_not_end_the_wait_for_others,
    tries_are_counted_for_each_publisher,
}

/// Says the same to every message at its n-th try, and the last of it from then on.
struct Says {
    name: &'static str,
    published: AtomicUsize,
    said: Vec<Option<(Class, &'static str)>>,
    /// The numbers of the tries, as the messages say them.
    attempts: Arc<Mutex<Vec<u32>>>,
}

#[async_trait]
impl Publisher for Says {
    fn name(&self) -> &str {
        self.name
    }

    async fn publish(&self, outgoing: &OutgoingMessage) -> Result<(), Failure> {
        self.attempts.lock().unwrap().push(outgoing.attempt);
        let no = self.published.fetch_add(1, Ordering::SeqCst).min(self.said.len() - 1);
        let Some((class, code)) = self.said[no] else { return Ok(()) };
        let failure = Failure::new(class, code, format!("it said {code}"));
        let unavailable = failure.is_unavailable() || self.said[no] == NOT_READY;
        Err(failure.with_unavailable(unavailable))
    }
}

type Attempts = Arc<Mutex<Vec<u32>>>;

const REFUSED: Option<(Class, &str)> = Some((Class::Network, "connect_refused"));
const GONE: Option<(Class, &str)> = Some((Class::Permanent, "http_410"));
const NOT_READY: Option<(Class, &str)> = Some((Class::Server, "http_503"));
const BROKEN: Option<(Class, &str)> = Some((Class::Server, "http_500"));

fn says(name: &'static str, said: &[Option<(Class, &'static str)>]) -> (Route, Attempts) {
    let attempts = Attempts::default();
    let (published, said) = (AtomicUsize::new(0), said.to_vec());
    let says = Says { name, published, said, attempts: attempts.clone() };
    (Route::new(all(), Arc::new(says)), attempts)
}

fn asked(attempts: &Attempts) -> usize {
    attempts.lock().unwrap().len()
}

async fn an_unavailable_receiver_costs_no_attempts_and_is_given_up_on_in_time(backend: Backend) {
    let store = store(backend).await;
    let mut said = vec![REFUSED; 20];
    said.extend([NOT_READY; 20]);
    said.push(None);
    let (route, attempts) = says("hook", &said);
    let built = runner(store.clone()).routes(Routes::new(vec![route]).unwrap());
    let first = built.start().await.unwrap();
    first.client().send(vec![sent(Queue::Outbox, "s", "1")]).await.unwrap();
    settle(&*store).await;
    assert_eq!(dead(&*store).await, []);
    assert_eq!(*attempts.lock().unwrap(), [1; 41], "none of them counted");
    first.stop().await;
    let (route, attempts) = says("hook", &[REFUSED]);
    let give_up = GiveUpPolicy { give_up_secs: 2, ..GiveUpPolicy::default() };
    let built = runner(store.clone()).options(options().give_up(give_up));
    let second = built.routes(Routes::new(vec![route]).unwrap()).start().await.unwrap();
    let clock = Clock::machine();
    second.client().send(vec![sent(Queue::Outbox, "s", "2")]).await.unwrap();
    settle(&*store).await;
    assert!(clock.elapsed() >= Duration::from_millis(1_900) && asked(&attempts) > 5);
    let letter = dead(&*store).await.remove(0);
    assert_eq!(letter.error, "hook: it said connect_refused");
    assert_eq!((letter.message.attempts, letter.message.waiting), (0, Vec::new()));
}

async fn an_unavailable_handler_fails_no_call(backend: Backend) {
    let store = store(backend).await;
    let said = Reply::json(200, json!({"reply": 1}).to_string());
    let upstream = Upstream::start(Script::always(said)).await.unwrap();
    upstream.stop().await;
    let http = Http::default().url(upstream.url().into());
    let asked = Arc::new(AtomicU32::new(0));
    let own = asked.clone();
    let consumer = Does(move |_: Context, _| {
        let is_unavailable = own.fetch_add(1, Ordering::SeqCst) < 20;
        Box::pin(async move {
            match is_unavailable {
                true => Err(HandlerError::unavailable("its database is away")),
                false => Ok(Effects::none()),
            }
        }) as _
    });
    let remote = Remote::new(&http).unwrap();
    let built =
        runner(store.clone()).remote_object("wallet", remote).consumer("c", all(), consumer);
    let runner = built.start().await.unwrap();
    let client = runner.client();
    client.send(vec![inbox("s", "m")]).await.unwrap();
    let careful = NewCall { policy: CrashPolicy::Fail, ..deposit("b", "r2", 5) };
    for call in [deposit("a", "r1", 5), careful] {
        client.submit(call).await.unwrap();
    }
    until("it was missed often", || async { runner.gauges().retries > 60 }).await;
    assert_eq!(runner.gauges().dead, 0);
    upstream.start_again().await.unwrap();
    for id in ["r1", "r2"] {
        assert_eq!(client.wait(&key(id), LONG).await.unwrap(), reply("1"), "{id}");
    }
    settle(&*store).await;
    assert_eq!((asked.load(Ordering::SeqCst), runner.gauges().dead), (21, 0));
}

async fn letter(store: &dyn windrow_store::Store) -> DeadLetter {
    until("it is a dead letter", || async { dead(store).await.len() == 1 }).await;
    settle(store).await;
    dead(store).await.remove(0)
}

async fn a_publisher_that_refused_is_not_asked_again_and_a_replay_goes_only_to_it(
    backend: Backend,
) {
    let store = store(backend).await;
    let ((good, good_asked), (hook, hook_asked)) = (says("good", &[None]), says("hook", &[GONE]));
    let routes = Routes::new(vec![good, hook]).unwrap();
    let runner = runner(store.clone()).routes(routes).start().await.unwrap();
    let client = runner.client();
    client.send(vec![sent(Queue::Outbox, "s", "1")]).await.unwrap();
    let refused = letter(&*store).await;
    assert_eq!(refused.error, "hook: it said http_410");
    assert_eq!(refused.message.waiting, ["hook"]);
    assert_eq!((asked(&good_asked), asked(&hook_asked)), (1, 1));
    client.replay_dead(&windrow_store::Scope::All, &[refused.id]).await.unwrap();
    until("it was asked", || async { asked(&hook_asked) == 2 }).await;
    assert_eq!(letter(&*store).await.message.waiting, ["hook"]);
    assert_eq!((asked(&good_asked), asked(&hook_asked)), (1, 2));
    assert_eq!(runner.gauges().dead, 2);
}

async fn who_refused_does_not_end_the_wait_for_others(backend: Backend) {
    let store = store(backend).await;
    let (gone, gone_asked) = says("gone", &[GONE]);
    let (slow, slow_asked) = says("slow", &[NOT_READY, NOT_READY, BROKEN, NOT_READY, None]);
    let routes = Routes::new(vec![gone, slow]).unwrap();
    let runner = runner(store.clone()).routes(routes).start().await.unwrap();
    runner.client().send(vec![sent(Queue::Outbox, "s", "1")]).await.unwrap();
    let refused = letter(&*store).await;
    assert_eq!(refused.error, "gone: it said http_410");
    assert_eq!(refused.message.waiting, ["gone"]);
    assert_eq!((asked(&gone_asked), asked(&slow_asked)), (1, 5));
}

async fn tries_are_counted_for_each_publisher(backend: Backend) {
    let store = store(backend).await;
    let most = options().retry.attempts_max as usize;
    // When the first one has had all its tries, the other one still has its own.
    let (bad, bad_asked) = says("bad", &[BROKEN]);
    let mut said = vec![NOT_READY; 8];
    said.extend(vec![BROKEN; most - 1]);
    said.push(None);
    let (weak, weak_asked) = says("weak", &said);
    let routes = Routes::new(vec![bad, weak]).unwrap();
    let runner = runner(store.clone()).routes(routes).start().await.unwrap();
    runner.client().send(vec![sent(Queue::Outbox, "s", "1")]).await.unwrap();
    assert_eq!(letter(&*store).await.message.waiting, ["bad"]);
    assert_eq!((asked(&bad_asked), asked(&weak_asked)), (most, said.len()));
}

/// As many as run while it is not known yet that the target is unavailable.
const FIRST: usize = 32;

/// How a silent receiver was asked.
#[derive(Default)]
struct Silence {
    asked: AtomicUsize,
    at_once: AtomicUsize,
    most: AtomicUsize,
}

/// Answers nobody, and takes long to say so.
struct Hole(Arc<Silence>);

#[async_trait]
impl Publisher for Hole {
    fn name(&self) -> &str {
        "hole"
    }

    async fn publish(&self, _: &OutgoingMessage) -> Result<(), Failure> {
        let at_once = self.0.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        if self.0.asked.fetch_add(1, Ordering::SeqCst) >= FIRST {
            self.0.most.fetch_max(at_once, Ordering::SeqCst);
        }
        Clock::machine().sleep(Duration::from_millis(300)).await;
        self.0.at_once.fetch_sub(1, Ordering::SeqCst);
        let failure = Failure::new(Class::Timeout, "connect_timeout", "silence");
        Err(failure.with_unavailable(true))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_streams_behind_a_silent_receiver_do_not_hold_up_others() {
    let store = store(Backend::Sqlite).await;
    let silence = Arc::new(Silence::default());
    let lost = Patterns { streams: vec!["lost-*".into()], ..Patterns::default() };
    let (good, good_asked) = says("good", &[None]);
    let kept = Patterns { streams: vec!["kept-*".into()], ..Patterns::default() };
    let good = Route { patterns: kept, ..good };
    let routes = vec![Route::new(lost, Arc::new(Hole(silence.clone()))), good];
    let retry = Policy::default();
    let options = options().streams_in_flight_max(FIRST).retry(retry);
    let built = runner(store.clone()).options(options).routes(Routes::new(routes).unwrap());
    let runner = built.start().await.unwrap();
    let client = runner.client();
    let messages = (0..900).map(|no| sent(Queue::Outbox, &format!("lost-{no}"), &no.to_string()));
    client.send(messages.collect()).await.unwrap();
    until("they wait", || async { runner.gauges().retries >= 900 }).await;
    let clock = Clock::machine();
    for no in 0..50 {
        let name = format!("kept-{no}");
        client.send(vec![sent(Queue::Outbox, &name, &name)]).await.unwrap();
    }
    until("the others came through", || async { asked(&good_asked) == 50 }).await;
    assert!(clock.elapsed() < Duration::from_secs(5), "{:?}", clock.elapsed());
    assert!(silence.most.load(Ordering::SeqCst) <= 8, "{:?} at once", silence.most);
    assert_eq!(runner.gauges().dead, 0);
}
