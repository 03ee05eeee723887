//! The metrics recorder of this process, in which the relays of all tests count together: a test can read a metric, and
//! can have the task that records one panic or wait.

use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::time::Instant;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

static INSTALLED: LazyLock<PrometheusHandle> = LazyLock::new(|| {
    let counts = PrometheusBuilder::new().build_recorder();
    let handle = counts.handle();
    metrics::set_global_recorder(Trapped(counts)).expect("no other test has a recorder");
    handle
});

/// Before the first relay starts, or what it counts is lost.
pub(crate) fn install() {
    LazyLock::force(&INSTALLED);
}

/// What `/metrics` would answer.
pub(crate) fn handle() -> PrometheusHandle {
    INSTALLED.clone()
}

/// A metric, summed over its series that have all these labels; 0 if there is none. A label has to name a tenant or a
/// broker that no other test has.
pub(crate) fn metric(name: &str, labels: &[(&str, &str)]) -> f64 {
    let wanted: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let text = INSTALLED.render();
    let series = text.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (found, labels) = series.split_once('{')?;
        let all = found == name && wanted.iter().all(|wanted| labels.contains(wanted));
        all.then(|| value.parse::<f64>().unwrap())
    });
    series.sum()
}

/// Times at which a metric was recorded for one tenant or broker.
pub(crate) type Met = Arc<Mutex<Vec<Instant>>>;

struct Trap {
    metric: &'static str,
    label: &'static str,
    panics_left: usize,
    met: Met,
    gate: Option<Arc<Gate>>,
}

/// Holds back who comes to it while it is shut, with the thread that it is on.
#[derive(Default)]
pub(crate) struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    pub(crate) fn shut(&self) {
        *self.shut.lock().unwrap() = true;
    }

    pub(crate) fn open(&self) {
        *self.shut.lock().unwrap() = false;
        self.opened.notify_all();
    }

    pub(crate) fn pass(&self) {
        drop(self.opened.wait_while(self.shut.lock().unwrap(), |shut| *shut).unwrap());
    }
}

static TRAPS: Mutex<Vec<Trap>> = Mutex::new(Vec::new());

/// The next `panics` times that `metric` is recorded with `label` as a label's value, the one who records it panics.
/// Labels are of one test each.
pub(crate) fn trap(metric: &'static str, label: &'static str, panics: usize) -> Met {
    install();
    let met = Met::default();
    TRAPS.lock().unwrap().push(Trap { metric, label, panics_left: panics, met: met.clone(), gate: None });
    met
}

/// From now on whoever records `metric` with `label` as a label's value has to pass this gate, which is shut.
pub(crate) fn gate(metric: &'static str, label: &'static str) -> Arc<Gate> {
    install();
    let gate = Arc::new(Gate::default());
    gate.shut();
    let trap = Trap { metric, label, panics_left: 0, met: Met::default(), gate: Some(gate.clone()) };
    TRAPS.lock().unwrap().push(trap);
    gate
}

fn step_on(key: &Key) {
    let mut traps = TRAPS.lock().unwrap();
    let mut panics = false;
    let mut gates = Vec::new();
    for trap in traps.iter_mut().filter(|trap| trap.metric == key.name()) {
        if key.labels().any(|label| label.value() == trap.label) {
            trap.met.lock().unwrap().push(Instant::now());
            panics |= trap.panics_left > 0;
            gates.extend(trap.gate.clone());
            trap.panics_left = trap.panics_left.saturating_sub(1);
        }
    }
    drop(traps);
    gates.iter().for_each(|gate| gate.pass());
    assert!(!panics, "a trap at {key}");
}

/// Counts, unless a trap is set.
struct Trapped(PrometheusRecorder);

impl Recorder for Trapped {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        step_on(key);
        self.0.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        step_on(key);
        self.0.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        step_on(key);
        self.0.register_histogram(key, metadata)
    }
}
