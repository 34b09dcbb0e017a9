//! The configuration: its layers, and what is wrong with it.

use crate::support::Workdir;

#[tokio::test]
async fn a_key_that_does_not_exist_is_named_with_its_line_and_the_nearest_one() {
    let workdir = Workdir::new();
    workdir.write("windrow.toml", "claim_max = 10\nclaim_mim = 3\n");
    let output = workdir.windrow(&["batches"]).await;
    assert_eq!(output.code, 9, "{output:?}");
    let wanted = "error: windrow.toml:2: unknown key `claim_mim`\n  What to do: did you mean \
                  `claim_min`?";
    assert!(output.err.starts_with(wanted), "{output:?}");
    workdir.write("windrow.toml", "");
    for (args, word) in [
        (["config", "--set", "claim_mx=3"], "did you mean `claim_max`?"),
        (["config", "--config", "none.toml"], "there is no configuration file at none.toml"),
    ] {
        let output = workdir.windrow(&args).await;
        assert_eq!(output.code, 9, "{output:?}");
        assert!(output.err.contains(word), "{output:?}");
    }
}

#[tokio::test]
async fn a_value_out_of_its_bounds_is_told_with_them() {
    let workdir = Workdir::new();
    let output = workdir.windrow_with(&["config"], &[("CLAIM_MAX", "many")]).await;
    assert_eq!(output.code, 9, "{output:?}");
    let wanted = "claim_max is \"many\" (environment variable CLAIM_MAX), but must be a whole number \
                  from 1 to 1000";
    assert!(output.err.contains(wanted), "{output:?}");
}

#[tokio::test]
async fn what_is_in_force_is_shown_with_its_origin_and_without_secrets() {
    let workdir = Workdir::new();
    workdir.write(
        "windrow.toml",
        "poll_ms = 500\n[upstreams.a]\nbase_url = \"http://h\"\ntargets = [\"m\"]\n\
         headers = { x-key = \"hush-hush\" }\n[publish.h]\ntype = \"webhook\"\n\
         url = \"http://h/hush-hush\"\nsecrets = [\"hush-hush\", { env = \"HOOK\" }]\n",
    );
    let database = [("WINDROW_DATABASE_URL", "postgres://u:hush-hush@h/d"), ("CLAIM_MIN", "2")];
    let output = workdir.windrow_with(&["config", "--set", "grace_ms=7"], &database).await;
    assert_eq!(output.code, 0, "{output:?}");
    for words in [
        ["poll_ms", "500", "file, line 1"],
        ["claim_min", "2", "environment, CLAIM_MIN"],
        ["grace_ms", "7", "flag"],
        ["claim_max", "1000", "default"],
        ["database", "PostgreSQL h/d", "environment, WINDROW_DATABASE_URL"],
    ] {
        let line = output.out.lines().find(|line| line.starts_with(&format!("{} ", words[0])));
        assert!(words.iter().all(|word| line.unwrap().contains(word)), "{line:?}");
    }
    assert!(
        output.out.contains("[upstreams.a]") && !output.out.contains("hush-hush"),
        "{output:?}"
    );
    assert!(output.out.contains("[publish.h]") && output.out.contains("env HOOK"), "{output:?}");
    let output = workdir.windrow_with(&["config", "--json"], &database).await;
    assert_eq!(output.json()["tables"], serde_json::json!(["publish.h"]));
    assert_eq!(output.json()["values"]["claim_min"]["value"], 2);
    assert!(!output.out.contains("hush-hush"));
}
