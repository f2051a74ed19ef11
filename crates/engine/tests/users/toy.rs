//! Test store: logs the requests it receives, and answers as its operations define.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use loadframe_engine::driver::{Context, Driver, ErrorClass, Failure, Reply};
use loadframe_engine::plan::{Plan, PlanError, Target};
use loadframe_engine::recording::outcome::RankOutcome;
use loadframe_engine::recording::second::Second;
use loadframe_engine::run::{Running, prepare_rank, start, validate};
use loadframe_engine::util::draw::Draw;
use loadframe_engine::workload::variables::template::Template;
use loadframe_engine::workload::variables::{Captured, Values};
use serde_json::{Value, json};

/// A request as received.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReceivedRequest {
    pub user: u64,
    pub k: u64,
    pub operation: String,
    pub text: String,
    pub iteration: u64,
    pub client: u64,
}

static ASKED: LazyLock<Mutex<Vec<(String, ReceivedRequest, Instant)>>> = LazyLock::new(Mutex::default);

/// Driver of the test store. Operations: `{"toy": {"say": TEXT, "ms": 0, "keep": VARIABLE, "as": TEXT,
/// "fails": SHARE OF EVERY nth}}`.
pub struct Toy {
    /// Name of the test.
    name: String,
}

pub struct Operation {
    name: String,
    say: Template,
    answer: Option<(usize, Template)>,
    delay: Option<Duration>,
    /// Text of users whose requests are refused.
    refuses: Option<String>,
    quiet: bool,
    /// Number of polls that do not find the text.
    blind: usize,
}

pub struct Connection {
    client: u64,
    memory: Captured,
}

impl Driver for Toy {
    type Operation = Operation;
    type Connection = Connection;
    fn new(target: &Target) -> Result<Self, PlanError> {
        Ok(Self { name: target.read_from.clone().unwrap_or_default() })
    }

    fn captures(&self) -> bool {
        true
    }

    fn map(&self, form: &Value, context: &Context) -> Result<Operation, PlanError> {
        let text = |key: &str| form[key].as_str().unwrap_or_default().to_owned();
        let template = |key: &str| {
            let mut template = Template::default();
            template.push_verbatim(&text(key), &context.variables)?;
            Ok::<_, PlanError>(template)
        };
        let keep = form["keep"].as_str().map(|name| context.variables.find(name)).transpose()?;
        let slot = keep.and_then(|id| context.variables.slot(id));
        Ok(Operation {
            name: text("name"),
            say: template("say")?,
            answer: slot.map(|slot| Ok::<_, PlanError>((slot, template("as")?))).transpose()?,
            delay: form["ms"].as_u64().map(Duration::from_millis),
            refuses: form["refuses"].as_str().map(str::to_owned),
            quiet: form["quiet"].as_bool().unwrap_or(false),
            blind: form["blind"].as_u64().unwrap_or(0) as usize,
        })
    }

    fn requests(&self, _: &Operation) -> Option<u64> {
        None
    }

    fn connection(&self, client: u64) -> Connection {
        Connection { client, memory: Captured::NONE }
    }

    fn memory<'a>(&self, connection: &'a mut Connection) -> Option<&'a mut Captured> {
        Some(&mut connection.memory)
    }

    async fn execute(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
        _: Option<&[u32]>,
    ) -> Reply {
        let sent = Instant::now();
        if let Some(delay) = operation.delay {
            tokio::time::sleep(delay).await;
        }
        let mut outcome = Ok(());
        if !operation.quiet {
            let (mut text, mut answer) = (Vec::new(), Vec::new());
            let values = Values { variables: &context.variables, draw, captured: &connection.memory };
            operation.say.render(&values, &mut text);
            if let Some((_, template)) = &operation.answer {
                template.render(&values, &mut answer);
            }
            if let Some((slot, _)) = &operation.answer {
                connection.memory.keep_text(*slot, &String::from_utf8(answer).unwrap());
            }
            let text = String::from_utf8(text).unwrap();
            if operation.refuses.as_ref() == Some(&text) {
                outcome = Err(Failure::new(ErrorClass::Client, "refused"));
            }
            let Draw { user, k, iteration, .. } = *draw;
            let blind = operation.blind;
            let (operation, client) = (operation.name.clone(), connection.client);
            let asked = ReceivedRequest { user, k, operation, text, iteration, client };
            let mut all = ASKED.lock().unwrap();
            let alike = |(name, before, _): &&(String, ReceivedRequest, Instant)| {
                name == &self.name && before.operation == asked.operation && before.text == asked.text
            };
            if all.iter().filter(alike).count() < blind {
                outcome = Err(Failure::new(ErrorClass::Assertion, "not there"));
            }
            all.push((self.name.clone(), asked, sent));
        }
        Reply { bytes_sent: 1, bytes_received: 1, ..Reply::new(sent, Instant::now(), outcome) }
    }
}

/// Result of a run: outcome, and received requests in the order of the answers.
pub struct Run {
    pub outcome: Value,
    pub asked: Vec<(ReceivedRequest, Instant)>,
    /// Rows of `series.csv`.
    series: String,
    /// Time before the load.
    pub began: Instant,
    /// Duration, s.
    pub took: f64,
}

impl Run {
    /// Returns the requests in order, without the client that sent them.
    pub fn set(&self) -> Vec<ReceivedRequest> {
        let mut set: Vec<_> =
            self.asked.iter().map(|(asked, _)| ReceivedRequest { client: 0, ..asked.clone() }).collect();
        set.sort();
        set
    }

    /// Returns the texts of a user, in order.
    pub fn said(&self, user: u64) -> Vec<&str> {
        self.asked.iter().filter(|(asked, _)| asked.user == user).map(|(asked, _)| asked.text.as_str()).collect()
    }

    /// Returns the minimum of a second's median and the maximum of an operation's response times, seconds.
    pub fn response(&self, operation: &str) -> (f64, f64) {
        let mut rows = self.series.lines().map(|row| row.split(',').collect::<Vec<_>>());
        let names = rows.next().unwrap();
        let column = |name: &str| names.iter().position(|column| *column == name).unwrap();
        let (named, p50, max) = (column("operation"), column("response_p50"), column("response_max"));
        let times = rows.filter(|row| row[named] == operation && row[p50].parse::<f64>().is_ok());
        let times = times.map(|row| (row[p50].parse().unwrap(), row[max].parse().unwrap()));
        times.fold((f64::INFINITY, 0.0), |(least, most), (p50, max): (f64, f64)| (least.min(p50), most.max(max)))
    }

    /// Returns a count of an operation.
    pub fn figure(&self, operation: &str, figure: &str) -> u64 {
        let rows = self.outcome["operations"].as_array().unwrap();
        let row = rows.iter().find(|row| row["operation"] == operation).unwrap();
        row[figure].as_u64().unwrap_or_else(|| panic!("{figure} of {row}"))
    }
}

/// Returns a plan with one stream.
pub fn plan(operations: &Value, stream: Value) -> Value {
    let mut operations = operations.clone();
    for (name, form) in operations.as_object_mut().unwrap() {
        form["name"] = json!(name);
    }
    let mut stream = stream;
    stream["name"] = json!("s");
    json!({"seed": 1, "phase": "p", "target": {"driver": "toy"}, "operations": operations, "streams": [stream]})
}

pub fn read(plan: &Value) -> Plan {
    serde_json::from_value(plan.clone()).unwrap()
}

/// Returns the error of a refused plan.
pub fn refused(plan: &Value) -> String {
    match serde_json::from_value::<Plan>(plan.clone()) {
        Ok(plan) => validate::<Toy>(plan, false).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

pub fn run(plan: &Value) -> Run {
    carried_out(plan, |plan, folder| {
        let running: Running = start::<Toy>(read(plan), folder).unwrap();
        assert!(running.wait(Duration::from_secs(120)));
        running.outcome().unwrap()
    })
}

/// Like [`run`], with several ranks in this process that exchange their seconds.
pub fn run_on_ranks(plan: &Value, ranks: usize) -> Run {
    carried_out(plan, |plan, folder| {
        let of = |rank: usize| {
            let mut plan = plan.clone();
            (plan["rank"], plan["ranks"]) = (json!(rank), json!(ranks));
            prepare_rank::<Toy>(read(&plan)).unwrap()
        };
        let ready: Vec<_> = (0..ranks).map(of).collect();
        let mut recorder = ready[0].recorder(folder, None).unwrap();
        let running: Vec<Running> = ready.into_iter().map(|ready| ready.begin(None).unwrap()).collect();
        let mut queues = vec![Vec::new(); ranks];
        loop {
            let over: Vec<bool> = running.iter().map(|running| running.wait(Duration::from_millis(10))).collect();
            for (queue, running) in queues.iter_mut().zip(&running) {
                queue.extend(running.seconds());
            }
            while queues.iter().any(|queue| !queue.is_empty())
                && queues.iter().zip(&over).all(|(queue, over)| *over || !queue.is_empty())
            {
                let seconds = queues.iter_mut().filter(|queue| !queue.is_empty()).map(|queue| queue.remove(0));
                let sum = seconds.map(|bytes| Second::from_bytes(&bytes).unwrap()).reduce(|mut sum, second| {
                    sum.add(second).unwrap();
                    sum
                });
                recorder.second(&sum.unwrap().to_bytes()).unwrap();
                running.iter().for_each(|running| running.apply(&recorder.directives()).unwrap());
            }
            if over.iter().all(|over| *over) && queues.iter().all(Vec::is_empty) {
                break;
            }
        }
        let part = |running: &Running| serde_json::from_value::<RankOutcome>(running.outcome().unwrap()).unwrap();
        recorder.finish(running.iter().map(part).collect()).unwrap()
    })
}

fn carried_out(plan: &Value, begin: impl FnOnce(&Value, &Path) -> Value) -> Run {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("loadframe-users-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let folder: PathBuf = std::env::temp_dir().join(&name);
    std::fs::create_dir(&folder).unwrap();
    let mut plan = plan.clone();
    plan["target"]["read_from"] = json!(name);
    let began = Instant::now();
    let outcome = begin(&plan, &folder);
    let took = began.elapsed().as_secs_f64();
    let series = std::fs::read_to_string(folder.join("series.csv")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let mut all = ASKED.lock().unwrap();
    let (mine, others) = std::mem::take(&mut *all).into_iter().partition(|(other, ..)| *other == name);
    *all = others;
    Run { outcome, series, asked: mine.into_iter().map(|(_, asked, sent)| (asked, sent)).collect(), began, took }
}
