//! The shell commands of README, run as they stand: what newcomers copy must work.

use tokio::io::{AsyncBufReadExt as _, BufReader};
use windrow_testkit::upstream::{Script, Upstream};

use crate::support::{Workdir, ended, ids, ids_of, signal};

const README: &str = include_str!("../../../../README.md");

/// The commands of this program in the shell snippets.
fn commands() -> Vec<&'static str> {
    let snippets = README.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = snippets.flat_map(str::lines).filter(|line| line.starts_with("windrow "));
    lines.map(|line| line.split(" # ").next().unwrap_or(line).trim()).collect()
}

#[tokio::test]
async fn the_commands_of_readme_do_what_it_says() {
    let upstream = Upstream::start(Script::echo()).await.unwrap();
    let (mut runs, mut serves) = (0, 0);
    for command in commands() {
        let workdir = Workdir::new();
        workdir.requests("requests.jsonl", 5);
        // Only the address is another one.
        let line = ["http://localhost:8000", "https://api.openai.com"];
        let line =
            line.iter().fold(command.to_owned(), |line, url| line.replace(url, &upstream.url()));
        assert!(line.contains(&upstream.url()), "{command}");
        if line.starts_with("windrow run ") {
            runs += 1;
            let output = workdir.shell(&line, &[("OPENAI_API_KEY", "sk-a")]).await;
            assert_eq!(output.code, 0, "{line}: {output:?}");
            assert_eq!(ids(&workdir.read("requests.results.jsonl")), ids_of(1..=5));
        } else {
            serves += 1;
            let args: Vec<&str> = line.split_whitespace().skip(1).collect();
            assert_eq!(args[0], "serve", "{line}");
            let mut server =
                workdir.command(&args, &[("WINDROW_LISTEN", "127.0.0.1:0")]).spawn().unwrap();
            let mut said = BufReader::new(server.stdout.take().unwrap()).lines();
            let mut lines = Vec::new();
            while let Some(line) = said.next_line().await.unwrap() {
                lines.push(line);
                if lines.last().is_some_and(|line| line.starts_with("Admin key")) {
                    break;
                }
            }
            let lines = lines.join("\n");
            assert!(lines.contains("/docs") && lines.contains(&upstream.url()), "{lines}");
            assert!(lines.contains("windrow.db"), "{lines}");
            signal(&server, "TERM").await;
            assert_eq!(ended(server).await.code, 0);
        }
    }
    assert!(runs >= 2 && serves >= 1, "{:?}", commands());
}

#[tokio::test]
async fn every_command_that_readme_names_is_there() {
    let workdir = Workdir::new();
    let prose: String = README.split("```").step_by(2).collect();
    let named =
        prose.split('`').skip(1).step_by(2).filter_map(|code| code.strip_prefix("windrow "));
    let named: Vec<&str> = named.filter_map(|code| code.split([' ', '(', '.']).next()).collect();
    assert!(named.len() > 3, "{named:?}");
    for command in named {
        let output = workdir.windrow(&[command, "--help"]).await;
        assert_eq!(output.code, 0, "windrow {command}: {output:?}");
    }
}
