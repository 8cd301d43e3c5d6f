//! Guards: the order of memory accesses in the barrier and in the mailboxes between threads.

#[test]
fn messages_and_plain_memory_are_visible_after_a_meeting() {
    penstock_loom::windows(2, 3);
}
#[test]
fn nobody_passes_before_all_have_arrived() {
    penstock_loom::three_meet(2);
}
#[test]
fn a_thread_that_gives_up_leaves_no_other_waiting() {
    penstock_loom::one_gives_up(4);
}
#[test]
fn a_thread_that_worked_alone_shares_its_work_again() {
    penstock_loom::alone_for_a_window(penstock_loom::Alone::SharedAgain, 3);
}
#[test]
fn a_run_that_ends_while_one_thread_works_wakes_the_others() {
    penstock_loom::alone_for_a_window(penstock_loom::Alone::RunIsOver, 3);
}
#[test]
fn a_thread_that_gives_up_alone_leaves_no_other_waiting() {
    penstock_loom::alone_for_a_window(penstock_loom::Alone::GivesUp, 3);
}
