//! scratch
mod load;
use std::sync::Arc;
use std::time::{Duration,Instant};
use windrow_store::Store;
use windrow_store_postgres::{Options, PostgresStore};
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("URL")?;
    let n: u64 = std::env::var("N").unwrap_or("200000".into()).parse()?;
    let pg = PostgresStore::connect(Options { pool_max: 8, ..Options::new(url.clone()) }).await?;
    pg.migrate().await?;
    let store: Arc<dyn Store> = Arc::new(pg);
    let t = Instant::now();
    let f = load::file(&*store, n).await?;
    println!("file {:?}", t.elapsed());
    if let Ok(secs) = std::env::var("SECS") {
        let secs: u64 = secs.parse()?;
        let r = load::drain(&store, load::Until::Time(Duration::from_secs(secs)), Some(Duration::from_secs(10))).await;
        println!("none {r:?}");
        let b = load::batch(&*store, f).await?;
        let r = load::drain(&store, load::Until::Time(Duration::from_secs(secs)), Some(Duration::from_secs(5))).await?;
        println!("drain tail {r:.0}/s");
        let _ = b;
        return Ok(());
    }
    for _ in 0..3 {
        let b = load::batch(&*store, f).await?;
        let r = load::drain(&store, load::Until::Lines(n), None).await?;
        load::audit(&*store, b).await?;
        let st = store.batch(&windrow_store::Scope::All, b).await?;
        println!("drain {r:.0}/s {:?} {:?}", st.state, st.counts);
        let p = plain(&url, n).await?;
        println!("plain {p:.0}/s ratio {:.2}", r/p);
    }
    Ok(())
}
async fn plain(url: &str, n: u64) -> anyhow::Result<f64> {
    let mut clients = vec![];
    for _ in 0..4 {
        let (c, conn) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
        tokio::spawn(conn);
        clients.push(c);
    }
    clients[0].batch_execute("DROP TABLE IF EXISTS plain; CREATE TABLE plain (LIKE windrow.results INCLUDING STORAGE, PRIMARY KEY (batch_id, line))").await?;
    let id = uuid::Uuid::now_v7();
    let next = Arc::new(std::sync::atomic::AtomicI64::new(0));
    let t = Instant::now();
    let mut set = tokio::task::JoinSet::new();
    for c in clients {
        let next = next.clone();
        set.spawn(async move {
            let st = c.prepare("INSERT INTO plain (batch_id, line, seq, created_at, lane, status, attempts, generation, http_status, custom_id, error_code, error, response, shaped, normalised) SELECT $1, l, s, now(), 0, st, a, 0, h, c, ec, e, r, sh, no FROM unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::int[], $6::smallint[], $7::text[], $8::text[], $9::text[], $10::bytea[], $11::text[], $12::text[]) u(l,s,st,a,h,c,ec,e,r,sh,no)").await.unwrap();
            let resp = load::response();
            loop {
                let first = next.fetch_add(500, std::sync::atomic::Ordering::Relaxed);
                if first as u64 >= n { break; }
                let lines: Vec<i64> = (first+1..=first+500).collect();
                let st16 = vec![0i16; 500]; let a = vec![1i32;500]; let h = vec![Some(200i16);500];
                let cu: Vec<String> = lines.iter().map(|l| format!("request-{l:09}")).collect();
                let nn: Vec<Option<&str>> = vec![None;500];
                let r: Vec<&[u8]> = vec![&resp[..];500];
                c.execute(&st, &[&id, &lines, &lines, &st16, &a, &h, &cu, &nn, &nn, &r, &nn, &nn]).await.unwrap();
            }
        });
    }
    while let Some(r) = set.join_next().await { r?; }
    Ok(n as f64 / t.elapsed().as_secs_f64())
}
