//! Everybody sees their own, and only an admin sees all.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Harness;

fn owners(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|job| job["owner"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_job_of_another_owner_is_not_there() {
    let harness = Harness::new().await;
    let id = harness.plain_job(&harness.ann, 2).await;
    let calls = [
        (Method::GET, ""),
        (Method::GET, "/items"),
        (Method::GET, "/items/1/attempts"),
        (Method::GET, "/events"),
        (Method::GET, "/export?format=csv"),
        (Method::POST, "/export?format=xlsx"),
        (Method::POST, "/pause"),
        (Method::POST, "/resume"),
        (Method::POST, "/cancel"),
        (Method::POST, "/kickoff"),
        (Method::POST, "/reprocess"),
    ];
    for (method, rest) in calls {
        for id in [id.as_str(), "nonsense", "00000000-0000-7000-8000-000000000000"] {
            let path = format!("/api/jobs/{id}{rest}");
            harness
                .send(&harness.bob, method.clone(), &path, &[], "")
                .await
                .refused(404, "not_found");
        }
        if method == Method::GET && rest != "/events" {
            let path = format!("/api/jobs/{id}{rest}");
            for key in [&harness.ann, &harness.admin] {
                let answer = harness.send(key, method.clone(), &path, &[], "").await;
                assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            }
        }
    }
    let unknown = harness.get("wr_no_such_key", &format!("/api/jobs/{id}")).await;
    unknown.refused(401, "invalid_api_key");
}

#[tokio::test]
async fn lists_show_ones_own_unless_an_admin_asks_for_more() {
    let harness = Harness::new().await;
    harness.plain_job(&harness.ann, 1).await;
    harness.plain_job(&harness.bob, 1).await;
    harness.plain_job(&harness.ann, 1).await;
    for path in ["/api/jobs?", "/api/pending?"] {
        let list = async |key: &str, query: &str| harness.get(key, &format!("{path}{query}")).await;
        assert_eq!(owners(&list(&harness.ann, "").await.ok(200)), ["ann", "ann"]);
        assert_eq!(owners(&list(&harness.bob, "userId=me").await.ok(200)), ["bob"]);
        assert_eq!(owners(&list(&harness.bob, "userId=bob").await.ok(200)), ["bob"]);
        assert_eq!(owners(&list(&harness.admin, "").await.ok(200)), [""; 0]);
        assert_eq!(owners(&list(&harness.admin, "userId=bob").await.ok(200)), ["bob"]);
        assert_eq!(owners(&list(&harness.admin, "userId=all").await.ok(200)).len(), 3);
        list(&harness.ann, "userId=all").await.refused(403, "admin_only");
        list(&harness.ann, "userId=bob").await.refused(403, "admin_only");
    }
}

#[tokio::test]
async fn a_cursor_belongs_to_its_owner_and_its_query() {
    let harness = Harness::new().await;
    let id = harness.plain_job(&harness.ann, 3).await;
    harness.plain_job(&harness.ann, 1).await;
    harness.plain_job(&harness.bob, 3).await;
    let items = format!("/api/jobs/{id}/items?pageSize=1");
    for path in ["/api/jobs?pageSize=1", "/api/pending?pageSize=1", &items] {
        let page = harness.get(&harness.ann, path).await.ok(200);
        let after = page["nextCursor"].as_str().unwrap();
        assert_eq!(page["data"].as_array().unwrap().len(), 1);
        let next = format!("{path}&after={after}");
        assert_eq!(harness.get(&harness.ann, &next).await.status, 200);
        // An admin's list of the same rows is another list.
        let as_admin = if path == items { next.clone() } else { format!("{next}&userId=ann") };
        let admins = harness.get(&harness.admin, &as_admin).await;
        assert_eq!(admins.status, if path == items { 400 } else { 200 }, "{}", admins.text());
        if path != items {
            harness.get(&harness.bob, &next).await.refused(400, "invalid_value");
        }
        harness
            .get(&harness.ann, &format!("{path}&after=bm9uc2Vuc2U"))
            .await
            .refused(400, "invalid_value");
    }
    let page = harness.get(&harness.ann, &format!("{items}&statuses=PENDING")).await.ok(200);
    let after = page["nextCursor"].as_str().unwrap();
    let other = format!("{items}&statuses=PENDING,PROCESSING&after={after}");
    harness.get(&harness.ann, &other).await.refused(400, "invalid_value");
}

#[tokio::test]
async fn jobs_are_listed_by_status_kind_and_time_page_by_page() {
    let harness = Harness::new().await;
    let first = harness.plain_job(&harness.ann, 1).await;
    for no in 2..=7 {
        let kind = if no % 2 == 0 { "?jobType=even" } else { "?jobType=odd" };
        harness.job(&harness.ann, kind, crate::harness::line(no, json!({}))).await;
    }
    harness.finish(&harness.ann, &first).await;
    let count = async |query: &str| {
        harness.walk(&harness.ann, &format!("/api/jobs?pageSize=2{query}"), || {}).await.len()
    };
    assert_eq!((count("").await, count("&jobType=even").await), (7, 3));
    assert_eq!(
        (count("&statuses=completed").await, count("&statuses=in_progress,paused").await),
        (1, 6)
    );
    assert_eq!(
        (count("&to=2020-01-01T00:00:00Z").await, count("&from=2020-01-01T00:00:00Z").await),
        (0, 7)
    );
    for bad in ["statuses=lost", "from=yesterday", "pageSize=0", "pageSize=1001"] {
        harness.get(&harness.ann, &format!("/api/jobs?{bad}")).await.refused(400, "invalid_value");
    }
}

#[tokio::test]
async fn the_list_of_what_is_pending_is_there_only_when_it_is_switched_on() {
    let setup = crate::harness::Setup { pending_dashboard: false, ..Default::default() };
    let harness = Harness::with(setup).await;
    harness.get(&harness.ann, "/api/pending").await.refused(404, "feature_off");
    let harness = Harness::new().await;
    let id = harness.plain_job(&harness.ann, 5).await;
    harness.plain_job(&harness.ann, 2).await;
    let rows = harness.walk(&harness.ann, "/api/pending?pageSize=3", || {}).await;
    assert_eq!(rows.len(), 7);
    assert_eq!(
        (&rows[0]["status"], &rows[0]["inputSummary"]["custom_id"]),
        (&json!("PENDING"), &json!("c-1"))
    );
    let query = format!("/api/pending?jobId={id}&statuses=PENDING&pageSize=2");
    assert_eq!(harness.walk(&harness.ann, &query, || {}).await.len(), 5);
    let none = harness.get(&harness.ann, "/api/pending?statuses=PROCESSING").await.ok(200);
    assert_eq!(none["data"], json!([]));
    harness.get(&harness.ann, "/api/pending?statuses=DONE").await.refused(400, "invalid_value");
}
