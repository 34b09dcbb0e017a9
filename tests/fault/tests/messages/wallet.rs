//! The worked example's own stress: money is conserved, and every repeated call has the same answer.

use std::process::Command;

use windrow_fault::{Backend, Fixture, Program, program, rounds};

use crate::{WITHIN, on_both_stores};

on_both_stores!(no_cent_is_lost_or_made);

async fn no_cent_is_lost_or_made(backend: Backend) {
    let fixture = Fixture::on(backend).await;
    let mut command = Command::new(program::example("wallet"));
    command.args(["--stress", "--secs", rounds("5", "60")]);
    let place = if backend == Backend::Sqlite { "--file" } else { "--database" };
    command.args([place, fixture.database()]);
    let mut wallet = Program::start(&fixture, "wallet", command);
    let status = wallet.ended(rounds(WITHIN, WITHIN * 2)).await;
    assert!(status.success(), "{status}: {}", wallet.said());
    println!("{backend:?}: {}", wallet.said());
}
