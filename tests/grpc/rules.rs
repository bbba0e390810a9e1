//! Rules: listing, status, checking, reloading.

use std::fs;

use probity::grpc::wire::{
    GetPackRequest, GetStatusRequest, ListPacksRequest, Mode, PolicyEffect, ReloadRequest, ValidateRequest,
};
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{GUARD, House, effects, items, pays, reason, request, write_pack};

const BROKEN: &str = "policy X { deny unless unless }";

#[tokio::test]
async fn packs_are_listed_page_by_page_and_shown_with_their_policies() {
    let house = House::start().await;
    for name in ["alpha", "zeta"] {
        write_pack(house.rules.path(), name, "2.1.0", GUARD);
    }
    let mut rules = house.rules_api().await;
    rules.reload(ReloadRequest::default()).await.unwrap();
    let first = ListPacksRequest { page_size: 2, page_token: String::new() };
    let first = rules.list_packs(first).await.unwrap().into_inner();
    assert_eq!(first.packs.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["alpha", "guard"]);
    assert!(!first.next_page_token.is_empty());
    let second = ListPacksRequest { page_size: 2, page_token: first.next_page_token };
    let second = rules.list_packs(second).await.unwrap().into_inner();
    assert_eq!(second.packs.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["zeta"]);
    assert_eq!(second.next_page_token, "");

    let guard = rules.get_pack(GetPackRequest { name: "guard".to_owned() }).await.unwrap().into_inner();
    assert_eq!(guard.pack.as_ref().unwrap().policy_count, 4);
    let policies: Vec<_> = guard.policies.iter().map(|p| (p.id.as_str(), p.effect(), p.severity)).collect();
    use PolicyEffect::{Deny, Judge, Review};
    assert_eq!(policies, [("P01", Deny, 1.0), ("P02", Deny, 0.5), ("R01", Review, 0.0), ("S01", Judge, 0.4)]);
    let none = rules.get_pack(GetPackRequest { name: "none".to_owned() }).await.unwrap_err();
    assert_eq!((none.code(), reason(&none).0.as_str()), (Code::NotFound, "UNKNOWN_PACK"));
}

#[tokio::test]
async fn a_reload_serves_new_sessions_and_open_episodes_keep_what_they_began_with() {
    let house = House::start().await;
    let mut engine = house.engine().await;
    let mut rules = house.rules_api().await;
    let mut began = request("old", items(0, [pays(&[500])]));
    began.set_mode(Mode::Episode);
    let before = engine.observe(began).await.unwrap().into_inner();
    write_pack(house.rules.path(), "guard", "1.1.0", &GUARD.replace("> 100", "> 1000"));
    let loaded = rules.reload(ReloadRequest::default()).await.unwrap().into_inner();
    assert_eq!((loaded.generation, loaded.packs[0].version.as_str()), (2, "1.1.0"));
    assert_ne!(loaded.packs[0].digest, before.pack_digest);

    let mut more = request("old", items(1, [pays(&[500])]));
    more.set_mode(Mode::Episode);
    let old = engine.observe(more).await.unwrap().into_inner();
    let new = engine.observe(request("new", items(0, [pays(&[500])]))).await.unwrap().into_inner();
    use probity::grpc::wire::Effect::{Deny, Review};
    assert_eq!((effects(&old), old.pack_version.as_str()), (vec![Deny], "1.0.0"));
    assert_eq!((effects(&new), new.pack_version.as_str()), (vec![Review], "1.1.0"));
    let status = rules.get_status(GetStatusRequest {}).await.unwrap().into_inner();
    let sessions: Vec<_> = status.generations.iter().map(|g| (g.generation, g.session_count)).collect();
    assert_eq!((sessions, status.session_count), (vec![(1, 1), (2, 1)], 2));
}

#[tokio::test]
async fn a_broken_set_is_refused_whole_with_its_diagnostics_and_the_one_before_keeps_serving() {
    let house = House::start().await;
    let mut rules = house.rules_api().await;
    write_pack(house.rules.path(), "guard", "1.1.0", &GUARD.replace("> 100", "> 1000"));
    write_pack(house.rules.path(), "broken", "1.0.0", BROKEN);

    let checked = rules.validate(ValidateRequest {}).await.unwrap().into_inner();
    assert!(!checked.valid);
    let refused = rules.reload(ReloadRequest::default()).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).0.as_str()), (Code::FailedPrecondition, "RULES_REFUSED"));
    let details = refused.get_error_details();
    let violation = &details.precondition_failure().unwrap().violations[0];
    assert!(violation.subject.contains("all.policy:1:"), "{violation:?}");
    assert!(violation.r#type.starts_with('P'), "{violation:?}");

    let status = rules.get_status(GetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status.generation, 1);
    let load = status.refused.unwrap();
    assert_eq!(load.diagnostics, checked.diagnostics);
    let answer = house.engine().await.observe(request("s", items(0, [pays(&[500])]))).await.unwrap().into_inner();
    assert_eq!((answer.pack_version.as_str(), effects(&answer)), ("1.0.0", vec![probity::grpc::wire::Effect::Deny]));
    assert_eq!(crate::manners::health(&house, "").await, crate::manners::SERVING);

    fs::remove_dir_all(house.rules.path().join("broken")).unwrap();
    assert!(rules.validate(ValidateRequest {}).await.unwrap().into_inner().valid);
    rules.reload(ReloadRequest::default()).await.unwrap();
    let status = rules.get_status(GetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.generation, status.refused), (2, None));
}
