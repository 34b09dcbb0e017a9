//! Everybody sees their own, and only an admin sees all.

use reqwest::Method;
use serde_json::{Value, json};

use crate::desk::Desk;

fn owners(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|job| job["owner"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_job_of_another_owner_is_not_there() {
    let desk = Desk::new().await;
    let id = desk.plain_job(&desk.ann, 2).await;
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
            desk.send(&desk.bob, method.clone(), &path, &[], "").await.refused(404, "not_found");
        }
        if method == Method::GET && rest != "/events" {
            let path = format!("/api/jobs/{id}{rest}");
            for key in [&desk.ann, &desk.admin] {
                let answer = desk.send(key, method.clone(), &path, &[], "").await;
                assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            }
        }
    }
    let nobody = desk.get("wr_no_such_key", &format!("/api/jobs/{id}")).await;
    nobody.refused(401, "invalid_api_key");
}

#[tokio::test]
async fn lists_show_ones_own_unless_an_admin_asks_for_more() {
    let desk = Desk::new().await;
    desk.plain_job(&desk.ann, 1).await;
    desk.plain_job(&desk.bob, 1).await;
    desk.plain_job(&desk.ann, 1).await;
    for path in ["/api/jobs?", "/api/pending?"] {
        let list = async |key: &str, query: &str| desk.get(key, &format!("{path}{query}")).await;
        assert_eq!(owners(&list(&desk.ann, "").await.ok(200)), ["ann", "ann"]);
        assert_eq!(owners(&list(&desk.bob, "userId=me").await.ok(200)), ["bob"]);
        assert_eq!(owners(&list(&desk.bob, "userId=bob").await.ok(200)), ["bob"]);
        assert_eq!(owners(&list(&desk.admin, "").await.ok(200)), [""; 0]);
        assert_eq!(owners(&list(&desk.admin, "userId=bob").await.ok(200)), ["bob"]);
        assert_eq!(owners(&list(&desk.admin, "userId=all").await.ok(200)).len(), 3);
        list(&desk.ann, "userId=all").await.refused(403, "admin_only");
        list(&desk.ann, "userId=bob").await.refused(403, "admin_only");
    }
}

#[tokio::test]
async fn a_cursor_belongs_to_its_owner_and_its_query() {
    let desk = Desk::new().await;
    let id = desk.plain_job(&desk.ann, 3).await;
    desk.plain_job(&desk.ann, 1).await;
    desk.plain_job(&desk.bob, 3).await;
    let items = format!("/api/jobs/{id}/items?pageSize=1");
    for path in ["/api/jobs?pageSize=1", "/api/pending?pageSize=1", &items] {
        let page = desk.get(&desk.ann, path).await.ok(200);
        let after = page["nextCursor"].as_str().unwrap();
        assert_eq!(page["data"].as_array().unwrap().len(), 1);
        let next = format!("{path}&after={after}");
        assert_eq!(desk.get(&desk.ann, &next).await.status, 200);
        // An admin's list of the same rows is another list.
        let as_admin = if path == items { next.clone() } else { format!("{next}&userId=ann") };
        let admins = desk.get(&desk.admin, &as_admin).await;
        assert_eq!(admins.status, if path == items { 400 } else { 200 }, "{}", admins.text());
        if path != items {
            desk.get(&desk.bob, &next).await.refused(400, "invalid_value");
        }
        desk.get(&desk.ann, &format!("{path}&after=bm9uc2Vuc2U"))
            .await
            .refused(400, "invalid_value");
    }
    let page = desk.get(&desk.ann, &format!("{items}&statuses=PENDING")).await.ok(200);
    let after = page["nextCursor"].as_str().unwrap();
    let other = format!("{items}&statuses=PENDING,PROCESSING&after={after}");
    desk.get(&desk.ann, &other).await.refused(400, "invalid_value");
}

#[tokio::test]
async fn jobs_are_listed_by_status_kind_and_time_page_by_page() {
    let desk = Desk::new().await;
    let first = desk.plain_job(&desk.ann, 1).await;
    for no in 2..=7 {
        let kind = if no % 2 == 0 { "?jobType=even" } else { "?jobType=odd" };
        desk.job(&desk.ann, kind, crate::desk::line(no, json!({}))).await;
    }
    desk.finish(&desk.ann, &first).await;
    let count = async |query: &str| {
        desk.walk(&desk.ann, &format!("/api/jobs?pageSize=2{query}"), || {}).await.len()
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
        desk.get(&desk.ann, &format!("/api/jobs?{bad}")).await.refused(400, "invalid_value");
    }
}

#[tokio::test]
async fn the_list_of_what_is_pending_is_there_only_when_it_is_switched_on() {
    let setup = crate::desk::Setup { pending_dashboard: false, ..Default::default() };
    let desk = Desk::with(setup).await;
    desk.get(&desk.ann, "/api/pending").await.refused(404, "feature_off");
    let desk = Desk::new().await;
    let id = desk.plain_job(&desk.ann, 5).await;
    desk.plain_job(&desk.ann, 2).await;
    let rows = desk.walk(&desk.ann, "/api/pending?pageSize=3", || {}).await;
    assert_eq!(rows.len(), 7);
    assert_eq!(
        (&rows[0]["status"], &rows[0]["inputSummary"]["title"]),
        (&json!("PENDING"), &json!("T 1"))
    );
    let query = format!("/api/pending?jobId={id}&statuses=PENDING&pageSize=2");
    assert_eq!(desk.walk(&desk.ann, &query, || {}).await.len(), 5);
    let none = desk.get(&desk.ann, "/api/pending?statuses=PROCESSING").await.ok(200);
    assert_eq!(none["data"], json!([]));
    desk.get(&desk.ann, "/api/pending?statuses=DONE").await.refused(400, "invalid_value");
}
