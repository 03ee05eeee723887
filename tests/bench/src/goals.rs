//! Ratios that the relay has to reach, with the floor below which a run fails and the target. Pure.

/// One ratio, by the name that reports have for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) name: &'static str,
    pub(crate) says: &'static str,
    pub(crate) floor: f64,
    pub(crate) target: f64,
}

/// A backlog of 1,000 keys to Kafka.
pub(crate) const T1: Goal = Goal {
    name: "T1",
    says: "drain to Kafka / the lower of both ceilings (null publisher, client alone)",
    floor: 0.70,
    target: 0.90,
};

/// The same to NATS or RabbitMQ.
pub(crate) const T3: Goal = Goal {
    name: "T3",
    says: "drain to NATS or RabbitMQ / the lower of both ceilings (null publisher, client alone)",
    floor: 0.60,
    target: 0.80,
};

/// More than this between before and after, and something else had a part in it.
const DRIFT: f64 = 0.15;

impl Goal {
    pub(crate) fn verdict(&self, reached: f64) -> &'static str {
        if reached >= self.target {
            "target reached"
        } else if reached >= self.floor {
            "above the floor"
        } else {
            "BELOW THE FLOOR"
        }
    }
}

/// Whether a ceiling moved so much during a run that the run says nothing.
pub(crate) fn drifted(before: f64, after: f64) -> bool {
    (before - after).abs() > DRIFT * before.max(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_missed_below_its_floor() {
        assert_eq!(T1.verdict(0.69), "BELOW THE FLOOR");
        assert_eq!(T1.verdict(0.70), "above the floor");
        assert_eq!(T1.verdict(0.90), "target reached");
    }

    #[test]
    fn a_run_is_void_if_a_ceiling_moved_by_more_than_a_seventh() {
        assert!(!drifted(100.0, 86.0) && !drifted(86.0, 100.0));
        assert!(drifted(100.0, 84.0) && drifted(84.0, 100.0));
        assert!(!drifted(0.0, 0.0));
    }
}
