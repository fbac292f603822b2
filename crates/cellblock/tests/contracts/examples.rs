//! The examples of the crate, run as they stand.

mod hello {
    include!("../../examples/hello.rs");

    #[test]
    fn the_example_hello_runs() {
        main().unwrap();
    }
}

mod live_events {
    include!("../../examples/live_events.rs");

    #[test]
    fn the_example_live_events_runs() {
        main().unwrap();
    }
}

mod tools {
    include!("../../examples/tools.rs");

    #[test]
    fn the_example_tools_runs() {
        main().unwrap();
    }
}

mod files {
    include!("../../examples/files.rs");

    #[test]
    fn the_example_files_runs() {
        main().unwrap();
    }
}

mod many_sessions {
    include!("../../examples/many_sessions.rs");

    #[test]
    fn the_example_many_sessions_runs() {
        main().unwrap();
    }
}
