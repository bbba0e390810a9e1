//! A session's drift memory as bytes, so that it survives a restart: sums, counts and names, and no text of an answer.
//!
//! ```text
//! state     = session:text library:text results:number scored:number structural:number streak:number
//!             scored_by_category:list of (category:text number)
//!             sums aged:list of scored dropped_since_sum:number latest:maybe open open:list of open
//!             tally counts:4 numbers agreement:5 numbers
//! sums      = n:number y:real xy:real high:number policy:number nan:byte plus:maybe stretch minus:maybe stretch
//! stretch   = first:number last:number
//! scored    = score:real high:byte policy:byte
//! open      = number:number x:number y_before:real score:real high:byte policy:byte category:text anomaly:byte
//!             serial:number perfect:byte streak_before:number ended_by:maybe number
//! tally     = signals:number max:maybe real by_type:list of (text real) by_category:list of (category:text number)
//!             anomalies:number high:number escapes:number escapes_by_type:list of (text number number)
//!             timeline:list of facts
//! facts     = probe:text type:text score:maybe real threshold:real category:text anomaly:text escape:byte
//!             triangulation:text standing:text action:text
//! selector  = seed:number draws:number uses_by_type:list of (text number) uses_by_probe:list of (text number)
//!             used_this_round:list of text
//! unsettled = number:number exposed:byte salt:16 bytes snapshot:16 bytes shadow:16 bytes empty:byte
//! maybe x   = 0, or 1 and x        real = 8 bytes, a double, little-endian
//! ```
//!
//! Where nothing is said, a word is empty. Whoever writes these bytes puts a version before them.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Accumulator, Action, Agreement, Anomaly, Category, Counts, Decisions, Selector, SessionState, SignalFacts,
    Standing, Tally, Triangulation, Unsettled,
    accumulate::{Aged, OddScores, Sums, revise::OpenScore},
};
use crate::model::bytes::{BytesError, Reader, put_len, put_number, put_text};

/// Why bytes are no saved memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedError {
    /// They do not follow the layout.
    #[error("the bytes of a saved memory are broken")]
    Broken,
    /// A word that is not known.
    #[error("a saved memory holds a word that is not known")]
    Word,
}

impl From<BytesError> for SavedError {
    fn from(_: BytesError) -> SavedError {
        SavedError::Broken
    }
}

type Read<T> = Result<T, SavedError>;

impl SessionState {
    /// Appends the state.
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        let SessionState { accumulator, tally, counts, agreement } = self;
        put_accumulator(out, accumulator);
        put_tally(out, tally);
        let Counts { sent, invalid, triangulated, summary_anomalies } = counts;
        let Agreement { pairs, full, by_question } = agreement;
        let numbers = [sent, invalid, triangulated, summary_anomalies, pairs, full];
        numbers.into_iter().chain(by_question).for_each(|number| put_number(out, *number));
    }

    /// Reads a state.
    pub(crate) fn read(from: &mut Reader<'_>) -> Read<SessionState> {
        Ok(SessionState {
            accumulator: read_accumulator(from)?,
            tally: read_tally(from)?,
            counts: Counts {
                sent: from.number()?,
                invalid: from.number()?,
                triangulated: from.number()?,
                summary_anomalies: from.number()?,
            },
            agreement: Agreement {
                pairs: from.number()?,
                full: from.number()?,
                by_question: [from.number()?, from.number()?, from.number()?],
            },
        })
    }
}

impl Selector {
    /// Appends the selector.
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        let Selector { seed, draws, uses_by_type, uses_by_probe, used_this_round } = self;
        put_number(out, *seed);
        put_number(out, *draws);
        put_map(out, uses_by_type, |out, uses| put_number(out, *uses));
        put_map(out, uses_by_probe, |out, uses| put_number(out, *uses));
        put_len(out, used_this_round.len());
        used_this_round.iter().for_each(|probe| put_text(out, probe));
    }

    /// Reads a selector.
    pub(crate) fn read(from: &mut Reader<'_>) -> Read<Selector> {
        Ok(Selector {
            seed: from.number()?,
            draws: from.number()?,
            uses_by_type: read_map(from, |from| Ok(from.number()?))?,
            uses_by_probe: read_map(from, |from| Ok(from.number()?))?,
            used_this_round: from.list(read_name)?.into_iter().collect(),
        })
    }
}

impl Unsettled {
    /// Appends what is kept for a baseline.
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        let Unsettled { number, decisions: Decisions { salt, snapshot, shadow, empty }, exposed } = self;
        put_number(out, *number);
        out.push((*exposed).into());
        [salt, snapshot, shadow].into_iter().for_each(|bytes| out.extend_from_slice(bytes));
        out.push((*empty).into());
    }

    /// Reads what is kept for a baseline.
    pub(crate) fn read(from: &mut Reader<'_>) -> Read<Unsettled> {
        Ok(Unsettled {
            number: from.number()?,
            exposed: read_bool(from)?,
            decisions: Decisions {
                salt: from.array()?,
                snapshot: from.array()?,
                shadow: from.array()?,
                empty: read_bool(from)?,
            },
        })
    }
}

fn put_accumulator(out: &mut Vec<u8>, accumulator: &Accumulator) {
    let Accumulator {
        session_id,
        library_version,
        results,
        scored,
        structural,
        scored_by_category,
        streak,
        sums,
        aged,
        dropped_since_sum,
        latest,
        open,
    } = accumulator;
    put_text(out, session_id);
    put_text(out, library_version);
    [results, scored, structural, streak].into_iter().for_each(|number| put_number(out, *number));
    put_categories(out, scored_by_category);
    let Sums { n, y, xy, high, policy, odd: OddScores { nan, plus, minus } } = sums;
    put_number(out, *n);
    put_real(out, *y);
    put_real(out, *xy);
    put_number(out, *high);
    put_number(out, *policy);
    out.push((*nan).into());
    for stretch in [plus, minus] {
        put_maybe(out, stretch.as_ref(), |out, (first, last)| {
            put_number(out, *first);
            put_number(out, *last);
        });
    }
    put_len(out, aged.len());
    for Aged { score, high, policy } in aged {
        put_real(out, *score);
        out.extend([u8::from(*high), u8::from(*policy)]);
    }
    put_len(out, *dropped_since_sum);
    put_maybe(out, latest.as_ref(), put_open);
    put_len(out, open.len());
    open.iter().for_each(|score| put_open(out, score));
}

fn read_accumulator(from: &mut Reader<'_>) -> Read<Accumulator> {
    let (session_id, library_version) = (read_name(from)?, read_name(from)?);
    let (results, scored, structural, streak) = (from.number()?, from.number()?, from.number()?, from.number()?);
    Ok(Accumulator {
        session_id,
        library_version,
        results,
        scored,
        structural,
        scored_by_category: read_categories(from)?,
        streak,
        sums: Sums {
            n: from.number()?,
            y: read_real(from)?,
            xy: read_real(from)?,
            high: from.number()?,
            policy: from.number()?,
            odd: OddScores {
                nan: read_bool(from)?,
                plus: read_maybe(from, read_stretch)?,
                minus: read_maybe(from, read_stretch)?,
            },
        },
        aged: from.list(read_aged)?.into(),
        dropped_since_sum: from.len()?,
        latest: read_maybe(from, read_open)?,
        open: from.list(read_open)?.into(),
    })
}

fn read_stretch(from: &mut Reader<'_>) -> Read<(u64, u64)> {
    Ok((from.number()?, from.number()?))
}

fn read_aged(from: &mut Reader<'_>) -> Read<Aged> {
    Ok(Aged { score: read_real(from)?, high: read_bool(from)?, policy: read_bool(from)? })
}

fn put_open(out: &mut Vec<u8>, open: &OpenScore) {
    let OpenScore {
        number,
        x,
        y_before,
        score,
        high,
        policy,
        category,
        anomaly,
        serial,
        perfect,
        streak_before,
        ended_by,
    } = open;
    put_number(out, *number);
    put_number(out, *x);
    put_real(out, *y_before);
    put_real(out, *score);
    out.extend([u8::from(*high), u8::from(*policy)]);
    put_text(out, category.map(Category::word).unwrap_or_default());
    out.push((*anomaly).into());
    put_number(out, *serial);
    out.push((*perfect).into());
    put_number(out, *streak_before);
    put_maybe(out, ended_by.as_ref(), |out, serial| put_number(out, *serial));
}

fn read_open(from: &mut Reader<'_>) -> Read<OpenScore> {
    Ok(OpenScore {
        number: from.number()?,
        x: from.number()?,
        y_before: read_real(from)?,
        score: read_real(from)?,
        high: read_bool(from)?,
        policy: read_bool(from)?,
        category: maybe_word(from, Category::from_word)?,
        anomaly: read_bool(from)?,
        serial: from.number()?,
        perfect: read_bool(from)?,
        streak_before: from.number()?,
        ended_by: read_maybe(from, |from| Ok(from.number()?))?,
    })
}

fn put_tally(out: &mut Vec<u8>, tally: &Tally) {
    let Tally { signals, max, by_type, by_category, anomalies, high, escapes, escapes_by_type, timeline } = tally;
    put_number(out, *signals);
    put_maybe(out, max.as_ref(), |out, max| put_real(out, *max));
    put_map(out, by_type, |out, most| put_real(out, *most));
    put_categories(out, by_category);
    [anomalies, high, escapes].into_iter().for_each(|number| put_number(out, *number));
    put_map(out, escapes_by_type, |out, (escapes, all)| {
        put_number(out, *escapes);
        put_number(out, *all);
    });
    put_len(out, timeline.len());
    timeline.iter().for_each(|facts| put_facts(out, facts));
}

fn read_tally(from: &mut Reader<'_>) -> Read<Tally> {
    Ok(Tally {
        signals: from.number()?,
        max: read_maybe(from, read_real)?,
        by_type: read_map(from, read_real)?,
        by_category: read_categories(from)?,
        anomalies: from.number()?,
        high: from.number()?,
        escapes: from.number()?,
        escapes_by_type: read_map(from, |from| Ok((from.number()?, from.number()?)))?,
        timeline: from.list(read_facts)?.into(),
    })
}

fn put_facts(out: &mut Vec<u8>, facts: &SignalFacts) {
    let SignalFacts {
        probe_id,
        probe_type,
        score,
        threshold,
        category,
        anomaly,
        escape,
        triangulation,
        standing,
        action,
    } = facts;
    put_text(out, probe_id);
    put_text(out, probe_type);
    put_maybe(out, score.as_ref(), |out, score| put_real(out, *score));
    put_real(out, *threshold);
    put_text(out, category.map(Category::word).unwrap_or_default());
    put_text(out, anomaly.map(Anomaly::word).unwrap_or_default());
    out.push((*escape).into());
    put_text(out, triangulation.map(Triangulation::word).unwrap_or_default());
    put_text(out, standing.word());
    put_text(out, action.word());
}

fn read_facts(from: &mut Reader<'_>) -> Read<SignalFacts> {
    Ok(SignalFacts {
        probe_id: read_name(from)?,
        probe_type: read_name(from)?,
        score: read_maybe(from, read_real)?,
        threshold: read_real(from)?,
        category: maybe_word(from, Category::from_word)?,
        anomaly: maybe_word(from, Anomaly::from_word)?,
        escape: read_bool(from)?,
        triangulation: maybe_word(from, Triangulation::from_word)?,
        standing: maybe_word(from, Standing::from_word)?.ok_or(SavedError::Word)?,
        action: maybe_word(from, Action::from_word)?.ok_or(SavedError::Word)?,
    })
}

fn put_map<V>(out: &mut Vec<u8>, map: &BTreeMap<Arc<str>, V>, mut put: impl FnMut(&mut Vec<u8>, &V)) {
    put_len(out, map.len());
    for (name, value) in map {
        put_text(out, name);
        put(out, value);
    }
}

fn read_map<V>(from: &mut Reader<'_>, mut read: impl FnMut(&mut Reader<'_>) -> Read<V>) -> Read<BTreeMap<Arc<str>, V>> {
    let entries: Vec<(Arc<str>, V)> = from.list(|from| Ok::<_, SavedError>((read_name(from)?, read(from)?)))?;
    Ok(entries.into_iter().collect())
}

fn put_categories(out: &mut Vec<u8>, counts: &BTreeMap<Category, u64>) {
    put_len(out, counts.len());
    for (category, count) in counts {
        put_text(out, category.word());
        put_number(out, *count);
    }
}

fn read_categories(from: &mut Reader<'_>) -> Read<BTreeMap<Category, u64>> {
    let entry = |from: &mut Reader<'_>| {
        let category = maybe_word(from, Category::from_word)?.ok_or(SavedError::Word)?;
        Ok::<_, SavedError>((category, from.number()?))
    };
    Ok(from.list(entry)?.into_iter().collect())
}

fn put_maybe<T>(out: &mut Vec<u8>, value: Option<&T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    out.push(value.is_some().into());
    if let Some(value) = value {
        put(out, value);
    }
}

fn read_maybe<T>(from: &mut Reader<'_>, read: impl FnOnce(&mut Reader<'_>) -> Read<T>) -> Read<Option<T>> {
    if read_bool(from)? { read(from).map(Some) } else { Ok(None) }
}

fn put_real(out: &mut Vec<u8>, real: f64) {
    out.extend_from_slice(&real.to_le_bytes());
}

fn read_real(from: &mut Reader<'_>) -> Read<f64> {
    Ok(f64::from_le_bytes(from.array()?))
}

fn read_bool(from: &mut Reader<'_>) -> Read<bool> {
    match from.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(SavedError::Broken),
    }
}

fn read_name(from: &mut Reader<'_>) -> Read<Arc<str>> {
    Ok(from.text()?.into())
}

fn maybe_word<T>(from: &mut Reader<'_>, of: impl Fn(&str) -> Option<T>) -> Read<Option<T>> {
    match from.text()? {
        "" => Ok(None),
        word => of(word).map(Some).ok_or(SavedError::Word),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::drift::{
        ConsistencySettings, DriftEvidence, LongitudinalSettings, ProbeResult, ReportSettings, StreakRule,
        StructuralCount, TriangulateRules,
    };

    const CONSISTENCY: ConsistencySettings = ConsistencySettings {
        rule: StreakRule::NoDivergence,
        streak: 3,
        expected_variance: 0.0,
        needs_calibration: false,
    };

    fn longitudinal(window: Option<usize>) -> LongitudinalSettings {
        LongitudinalSettings {
            frequency: 0.4,
            trend: 0.2,
            category: 0.3,
            structural: 0.1,
            trend_scale: 5.0,
            trend_min_scores: 3,
            per_policy_disagreement: 0.25,
            structural_steps: vec![(1, 0.1), (4, 0.8)],
            window,
            structural_without_scores: true,
            count_explained: false,
            accept_any_score: window.is_none(),
        }
    }

    const REPORT: ReportSettings = ReportSettings {
        min_probes: 3,
        max_malformed_share: 0.5,
        evidence: DriftEvidence::Either,
        structural: StructuralCount::Anomalies,
        anomaly_first: false,
        timeline: 5,
        z: 1.96,
        empty_interval_is_zero: true,
    };

    /// A result, whether it stays open, and what a baseline later says of the oldest open one.
    type Step = (ProbeResult, bool, Option<Triangulation>);

    fn step(odd: bool) -> impl Strategy<Value = Step> {
        let score = prop_oneof![
            8 => 0.0..=1.0f64,
            1 => prop::sample::select(if odd { vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY] } else { vec![0.5] }),
        ];
        let category = prop::option::of(prop::sample::select(&Category::ALL[..]));
        let said = || prop::option::of(prop::sample::select(&Triangulation::ALL[..]));
        let anomaly = prop::option::weighted(0.2, prop::sample::select(&Anomaly::ALL[..]));
        (prop::option::weighted(0.9, score), category, anomaly, any::<[bool; 3]>(), said(), said()).prop_map(
            |(score, category, anomaly, [diverged, escape, open], triangulation, settles)| {
                let result = ProbeResult {
                    probe_type: if escape { "a".into() } else { "b".into() },
                    score,
                    threshold: 0.5,
                    category,
                    anomaly,
                    diverged,
                    triangulation,
                    escape,
                    confidence: if diverged && escape { 0.1 } else { 1.0 },
                };
                (result, open, settles)
            },
        )
    }

    fn take(state: &mut SessionState, (result, open, settles): &Step, settings: &LongitudinalSettings) {
        let standing = state.accumulator.record(None, "1", result, settings, &CONSISTENCY, 0.5).unwrap();
        state.counts.sent += 1;
        let facts = SignalFacts {
            probe_id: "p".into(),
            probe_type: result.probe_type.clone(),
            score: result.score,
            threshold: result.threshold,
            category: result.category,
            anomaly: result.anomaly,
            escape: result.escape,
            triangulation: result.triangulation,
            standing,
            action: Action::ElevatedReview,
        };
        state.tally.add(facts, &REPORT);
        if *open {
            state.accumulator.keep_open(state.tally.signals());
        }
        if let (Some(said), Some(number)) = (settles, state.accumulator.open.front().map(|open| open.number)) {
            let standing = state.accumulator.settle(number, *said, settings).unwrap();
            state.tally.settle(number, *said, standing, Action::LogOnly);
        }
    }

    fn saved(state: &SessionState) -> Vec<u8> {
        let mut bytes = Vec::new();
        state.save(&mut bytes);
        bytes
    }

    fn read(bytes: &[u8]) -> Read<SessionState> {
        let mut from = Reader::new(bytes);
        let state = SessionState::read(&mut from)?;
        if from.is_empty() { Ok(state) } else { Err(SavedError::Broken) }
    }

    fn cases() -> impl Strategy<Value = (Option<usize>, Vec<Step>, Vec<Step>)> {
        prop::option::of(1..6_usize).prop_flat_map(|window| {
            let steps = || prop::collection::vec(step(window.is_none()), 0..30);
            (Just(window), steps(), steps())
        })
    }

    proptest! {
        #[test]
        fn a_saved_state_goes_on_as_if_it_had_never_been_away((window, before, after) in cases()) {
            let settings = longitudinal(window);
            let mut unbroken = SessionState::new("s", "1");
            before.iter().for_each(|step| take(&mut unbroken, step, &settings));
            unbroken.agreement = Agreement { pairs: 300, full: 2, by_question: [1, 2, 3] };
            unbroken.invalid();
            let mut again = read(&saved(&unbroken)).unwrap();
            prop_assert_eq!(format!("{again:?}"), format!("{unbroken:?}"));
            for step in &after {
                take(&mut unbroken, step, &settings);
                take(&mut again, step, &settings);
                prop_assert_eq!(format!("{again:?}"), format!("{unbroken:?}"));
            }
        }

        #[test]
        fn a_part_of_a_saved_state_is_none((window, before, _) in cases(), cut in any::<prop::sample::Index>()) {
            let mut state = SessionState::new("s", "1");
            before.iter().for_each(|step| take(&mut state, step, &longitudinal(window)));
            let bytes = saved(&state);
            prop_assert!(read(&bytes[..cut.index(bytes.len())]).is_err());
        }
    }

    #[test]
    fn what_waits_for_a_baseline_is_compared_alike_when_it_was_saved() {
        let rules = TriangulateRules::default();
        for [snapshot, shadow] in [["comply", "decline"], ["decline", "decline"], ["", "comply"]] {
            let decisions = Decisions::new(snapshot, shadow, &rules);
            let unsettled = Unsettled { number: 300, decisions, exposed: true };
            let mut bytes = Vec::new();
            unsettled.save(&mut bytes);
            let again = Unsettled::read(&mut Reader::new(&bytes)).unwrap();
            assert_eq!(again, unsettled);
            for baseline in ["comply", "decline", "partial", ""] {
                let expected = crate::drift::triangulate(snapshot, shadow, baseline, &rules);
                assert_eq!(again.decisions.triangulate(baseline, &rules), expected, "{snapshot} {shadow} {baseline}");
            }
            assert!((0..bytes.len()).all(|cut| Unsettled::read(&mut Reader::new(&bytes[..cut])).is_err()));
        }
    }

    #[test]
    fn a_saved_selector_draws_what_the_other_draws() {
        let selector = Selector {
            seed: u64::MAX,
            draws: 7,
            uses_by_type: [("a".into(), 3)].into(),
            uses_by_probe: [("p".into(), 2), ("q".into(), 1)].into(),
            used_this_round: ["q".into()].into(),
        };
        let mut bytes = Vec::new();
        selector.save(&mut bytes);
        let again = Selector::read(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(format!("{again:?}"), format!("{selector:?}"));
        assert!((0..bytes.len()).all(|cut| Selector::read(&mut Reader::new(&bytes[..cut])).is_err()));
    }
}
