//! Times in microseconds, counted in buckets of at most 1/64 of their size: bounded memory for any run.

const SUB: u64 = 64;
const BUCKETS: usize = 40 * SUB as usize;

pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    pub max: u64,
}

impl Histogram {
    pub fn new() -> Histogram {
        Histogram {
            counts: vec![0; BUCKETS],
            total: 0,
            max: 0,
        }
    }

    pub fn add(&mut self, micros: u64) {
        self.counts[bucket(micros).min(BUCKETS - 1)] += 1;
        self.total += 1;
        self.max = self.max.max(micros);
    }

    /// The time that this share of all stayed within (a bucket's upper end, but never above the longest).
    pub fn percentile(&self, share: f64) -> u64 {
        let wanted = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return upper_end(place).min(self.max);
            }
        }
        self.max
    }
}

fn bucket(micros: u64) -> usize {
    if micros < SUB {
        return micros as usize;
    }
    // The top six bits below the highest one say where in its power of two a time is.
    let power = u64::from(micros.ilog2()) - 6;
    (SUB + power * SUB + ((micros >> power) - SUB)) as usize
}

fn upper_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB {
        return bucket;
    }
    let power = bucket / SUB - 1;
    ((bucket % SUB + SUB + 1) << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_a_bucket_that_ends_at_most_a_64th_above_it() {
        for micros in (0..100_000).chain((1..1_000).map(|n| n * 99_991)) {
            let end = upper_end(bucket(micros));
            assert!(
                end >= micros && end <= micros + micros / 64 + 1,
                "{micros} {end}"
            );
        }
    }

    #[test]
    fn percentiles() {
        let mut times = Histogram::new();
        for micros in 1..=1_000 {
            times.add(micros);
        }
        assert!((500..=508).contains(&times.percentile(0.5)));
        assert!((990..=1_000).contains(&times.percentile(0.99)));
        assert_eq!(times.percentile(1.0), 1_000);
        assert_eq!(Histogram::new().percentile(0.99), 0);
    }
}
