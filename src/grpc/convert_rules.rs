//! Conversion for `Rules`: what differs between packs, and how a candidate stands.

use std::sync::Arc;

use tonic::Status;

use crate::{
    audit::PackRef,
    engine::{
        Aspect, Change, DeclarationChange, Figures, PackDiff, Pair, PolicyChange, SettingChange, TraceDiff, Verdict,
        VerdictAt,
    },
    ingest::Episode,
    model::{Digest, Gate, PolicyId},
    service::{CallDifference, Compared, Difference, PackSource, PolicyTotals, RefusedLoad, ShadowStatus, Totals},
};

use super::{
    convert::{self, Faults},
    wire,
};

/// What `Diff` asks for.
pub(super) struct DiffAsk {
    pub(super) before: PackSource,
    pub(super) after: PackSource,
    pub(super) episodes: Vec<Episode>,
}

pub(super) fn diff_ask(request: wire::DiffRequest, max_episodes: usize) -> Result<DiffAsk, Status> {
    let wire::DiffRequest { before, after, episodes_json } = request;
    let mut faults = Faults::default();
    let before = pack_source(&mut faults, "before", before);
    let after = pack_source(&mut faults, "after", after);
    let episodes = convert::episodes(&mut faults, &episodes_json, max_episodes);
    match (before, after) {
        (Some(before), Some(after)) => faults.or(DiffAsk { before, after, episodes }),
        // A source that is missing is a fault.
        _ => Err(faults.or(()).err().unwrap_or_else(|| Status::internal("a source is neither there nor missing"))),
    }
}

fn pack_source(faults: &mut Faults, field: &str, source: Option<wire::PackSource>) -> Option<PackSource> {
    use wire::pack_source::Source;
    let Some(source) = source.and_then(|wire::PackSource { source }| source) else {
        faults.add(field, "must say where the pack comes from");
        return None;
    };
    let mut query = |name: &str, asked: &str| {
        let field = format!("{field}.{name}");
        if asked.is_empty() {
            faults.add(&field, "must not be empty");
        }
        faults.optional_pack(&field, asked)
    };
    match source {
        Source::Served(asked) => query("served", &asked).map(PackSource::Served),
        Source::OnDisk(asked) => query("on_disk", &asked).map(PackSource::OnDisk),
        Source::Shadow(asked) => query("shadow", &asked).map(PackSource::Shadow),
        Source::Digest(digest) => match Digest::from_hex(&digest) {
            Some(digest) => Some(PackSource::Kept(digest)),
            None => {
                faults.add(format!("{field}.digest"), "must be 64 hexadecimal digits");
                None
            }
        },
    }
}

pub(super) fn compared(compared: &Compared) -> wire::DiffResponse {
    let Compared { before, after, diff, traces } = compared;
    let PackDiff { pack: _, before: _, after: _, meaning_changed, probes_changed, policies, declarations, settings } =
        diff;
    let mut response = wire::DiffResponse {
        before: Some(convert::pack(before)),
        after: Some(convert::pack(after)),
        meaning_changed: *meaning_changed,
        probes_changed: *probes_changed,
        policies: policies.iter().map(policy_change).collect(),
        declarations: declarations.iter().map(declaration_change).collect(),
        settings: settings.iter().map(setting_change).collect(),
        ..wire::DiffResponse::default()
    };
    if let Some(TraceDiff { episodes, verdicts, before, after }) = traces {
        response.episode_count = *episodes;
        response.figures_before = Some(figures(before));
        response.figures_after = Some(figures(after));
        for (policy, changed) in verdicts {
            for (gained, list) in [(true, &changed.gained), (false, &changed.lost)] {
                response.verdicts.extend(list.iter().map(|at| verdict_change(policy, at, gained)));
            }
        }
    }
    response
}

fn change(change: Change) -> i32 {
    let kind = match change {
        Change::Added => wire::ChangeKind::Added,
        Change::Removed => wire::ChangeKind::Removed,
        Change::Changed => wire::ChangeKind::Changed,
    };
    kind.into()
}

fn policy_change(policy: &PolicyChange) -> wire::PolicyChange {
    let PolicyChange { policy, title, change: kind, aspects } = policy;
    wire::PolicyChange {
        policy: policy.clone(),
        title: title.clone(),
        change: change(*kind),
        aspects: aspects.iter().map(aspect).collect(),
    }
}

fn aspect(aspect: &Aspect) -> wire::PolicyAspectChange {
    use wire::PolicyAspect as Kind;
    let pair = |Pair { before, after }: &Pair| (vec![before.clone()], vec![after.clone()]);
    let (kind, (before, after)) = match aspect {
        Aspect::Meaning { before, after } => (Kind::Meaning, (before.clone(), after.clone())),
        Aspect::Through { names } => (Kind::Through, (Vec::new(), names.clone())),
        Aspect::Severity(values) => (Kind::Severity, pair(values)),
        Aspect::Title(values) => (Kind::Title, pair(values)),
        Aspect::Message(values) => (Kind::Message, pair(values)),
        Aspect::Tags(values) => (Kind::Tags, pair(values)),
        Aspect::Layout => (Kind::Layout, (Vec::new(), Vec::new())),
    };
    wire::PolicyAspectChange { aspect: kind.into(), before, after }
}

fn declaration_change(declaration: &DeclarationChange) -> wire::DeclarationChange {
    let DeclarationChange { kind, name, change: became, before, after } = declaration;
    wire::DeclarationChange {
        kind: (*kind).to_owned(),
        name: name.clone(),
        change: change(*became),
        before: before.clone(),
        after: after.clone(),
    }
}

fn setting_change(setting: &SettingChange) -> wire::SettingChange {
    let SettingChange { file, at, change: became, before, after } = setting;
    wire::SettingChange {
        file: file.clone(),
        at: at.clone(),
        change: change(*became),
        before: before.clone(),
        after: after.clone(),
    }
}

fn figures(figures: &Figures) -> wire::DiffFigures {
    let Figures { hits, episodes_with_hits, undecided, violation_reward, coverage } = figures;
    wire::DiffFigures {
        hit_count: *hits,
        episode_with_hits_count: *episodes_with_hits,
        undecided_count: *undecided,
        violation_reward: *violation_reward,
        coverage: *coverage,
    }
}

fn verdict_change(policy: &str, at: &VerdictAt, gained: bool) -> wire::VerdictChange {
    let VerdictAt { episode_id, turn, verdict } = at;
    wire::VerdictChange {
        episode_id: episode_id.clone(),
        turn: *turn,
        policy: policy.to_owned(),
        verdict: (*verdict).to_owned(),
        gained,
    }
}

pub(super) fn refused_load(refused: &RefusedLoad) -> wire::RefusedLoad {
    wire::RefusedLoad {
        refused_at: Some(convert::timestamp(refused.at)),
        diagnostics: refused.diagnostics.iter().map(convert::diagnostic).collect(),
        rendered: refused.rendered.to_string(),
        commit: refused.commit.as_deref().unwrap_or_default().to_owned(),
    }
}

pub(super) fn shadow(status: &ShadowStatus) -> wire::GetShadowResponse {
    let ShadowStatus { location, candidate, stale, totals } = status;
    let Totals {
        generation: _,
        sessions,
        items,
        differing_items,
        calls,
        changed_calls,
        policies,
        skipped,
        absent,
        unfollowed,
    } = totals;
    let call = |((live, candidate), count): (&(Gate, Gate), &u64)| wire::ShadowCallCount {
        live: convert::effect(*live).into(),
        candidate: convert::effect(*candidate).into(),
        count: *count,
    };
    let policy = |((pack, policy), totals): (&(Arc<str>, PolicyId), &PolicyTotals)| wire::ShadowPolicyCount {
        pack: pack.to_string(),
        policy: policy.to_string(),
        gained_count: totals.gained,
        lost_count: totals.lost,
    };
    let loaded = candidate.set.iter().len() > 0;
    wire::GetShadowResponse {
        rules_location: location.clone(),
        commit: candidate.commit.as_deref().unwrap_or_default().to_owned(),
        packs: candidate.set.iter().map(|pack| convert::pack(pack)).collect(),
        warnings: candidate.warnings.iter().map(convert::diagnostic).collect(),
        refused: stale.as_ref().map(|stale| refused_load(&stale.refused)),
        loaded_at: loaded.then(|| convert::timestamp(candidate.loaded_at)),
        session_count: *sessions,
        item_count: *items,
        differing_item_count: *differing_items,
        call_count: *calls,
        changed_calls: changed_calls.iter().map(call).collect(),
        policies: policies.iter().map(policy).collect(),
        skipped_item_count: *skipped,
        unfollowed_item_count: *unfollowed,
        absent_item_count: *absent,
    }
}

pub(super) fn difference(difference: &Difference) -> wire::ShadowDifference {
    let Difference { session, agent, live, candidate, seq, turn, calls, gained, lost } = difference;
    let PackRef { name, version, digest } = &**live;
    let call = |call: &CallDifference| wire::ShadowCall {
        index: call.index,
        live: convert::effect(call.live).into(),
        candidate: convert::effect(call.candidate).into(),
    };
    let verdict = |gained: bool| {
        move |(turn, policy, verdict): &Verdict| wire::ShadowVerdict {
            turn: *turn,
            policy: policy.to_string(),
            verdict: (*verdict).to_owned(),
            gained,
        }
    };
    wire::ShadowDifference {
        session_id: session.to_string(),
        agent_id: agent.to_string(),
        pack: name.to_string(),
        pack_version: version.to_string(),
        pack_digest: digest.to_string(),
        candidate_version: candidate.version.to_string(),
        candidate_digest: candidate.digest.to_string(),
        seq: *seq,
        turn: *turn,
        calls: calls.iter().map(call).collect(),
        verdicts: gained.iter().map(verdict(true)).chain(lost.iter().map(verdict(false))).collect(),
    }
}
