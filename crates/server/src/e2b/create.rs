//! New sandboxes: from a template or a snapshot, with an end.

use super::ENVD_VERSION;
use super::error::E2bError;
use super::metrics::ProcessorSample;
use super::network_hint::NetworkHint;
use super::paths::HOME;
use super::sandbox::{
    AtEnd, FileMetadata, Internet, Lifetime, Resume, RunState, Sandbox, Settings, lock,
};
use super::time::rfc3339;
use crate::auth::{Caller, Secret, random_id};
use crate::copies::SessionCopy;
use crate::live::LiveSession;
use crate::sessions::NewSession;
use crate::snapshots::KeptSnapshot;
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use cellblock_protocol::{HostPattern, Limits, NetworkRule, SessionOptions, Shell};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, OnceCell};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a sandbox lives when its creator does not say so.
pub(super) const DEFAULT_LIFE: Duration = Duration::from_secs(300);
/// The longest life of a sandbox.
const MAX_LIFE: Duration = Duration::from_secs(24 * 3600);
/// The memory of a sandbox.
const MEMORY_BYTES: u64 = 1 << 30;
/// The most names of metadata, and the most bytes of them with their values.
const MAX_METADATA: usize = 200;
const MAX_METADATA_BYTES: usize = 64 << 10;
/// The most hosts that a client can name.
const MAX_HOSTS: usize = 200;
/// What clients write for all hosts.
const ALL_HOSTS: [&str; 2] = ["0.0.0.0/0", "::/0"];
/// Templates that clients of E2B know, and that are the default environment of this server.
const DEFAULT_TEMPLATES: [&str; 5] = [
    "base",
    "python",
    "code-interpreter",
    "code-interpreter-v1",
    "code-interpreter-stateful",
];

/// What a client asks for. Fields that this server does not know are left alone, as E2B does.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateRequest {
    #[serde(rename = "templateID")]
    template: Option<String>,
    timeout: Option<u64>,
    metadata: Option<BTreeMap<String, String>>,
    env_vars: Option<BTreeMap<String, String>>,
    #[serde(rename = "allow_internet_access")]
    allow_internet_access: Option<bool>,
    auto_pause: Option<bool>,
    auto_resume: Option<AutoResume>,
    volume_mounts: Option<Vec<Value>>,
    mcp: Option<Value>,
    network: Option<NetworkRequest>,
}

/// Which hosts the client wants to be reached. It can only narrow what the operator opened.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NetworkRequest {
    #[serde(default)]
    allow_out: Vec<String>,
    #[serde(default)]
    deny_out: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct AutoResume {
    enabled: Option<bool>,
}

/// Creates a sandbox.
pub(super) async fn create(
    State(state): State<AppState>,
    caller: Caller,
    Json(request): Json<CreateRequest>,
) -> Result<(StatusCode, Json<Value>), E2bError> {
    let sandbox = state.create_sandbox(&caller, request).await?;
    Ok((StatusCode::CREATED, Json(sandbox_json(&state, &sandbox))))
}

/// A sandbox as the answer to its creation and to `connect`.
pub(super) fn sandbox_json(state: &AppState, sandbox: &Sandbox) -> Value {
    json!({
        "templateID": sandbox.settings.template,
        "alias": sandbox.settings.template,
        "sandboxID": sandbox.id,
        "clientID": "local",
        "envdVersion": ENVD_VERSION,
        "envdAccessToken": sandbox.token,
        "trafficAccessToken": sandbox.token,
        "domain": state.options().e2b.domain,
    })
}

/// A sandbox with everything that a client can ask about it.
pub(super) fn detail_json(state: &AppState, sandbox: &Sandbox) -> Value {
    let mut detail = listed_json(sandbox);
    let settings = &sandbox.settings;
    let on_timeout = match settings.at_end {
        AtEnd::Kill => "kill",
        AtEnd::Pause => "pause",
    };
    detail["envdAccessToken"] = sandbox.token.clone().into();
    detail["domain"] = state.options().e2b.domain.clone().into();
    detail["allowInternetAccess"] = (!state.network_of(settings).is_empty()).into();
    detail["lifecycle"] = json!({
        "onTimeout": on_timeout,
        "autoResume": settings.resume == Resume::ByAnyRequest,
    });
    detail
}

/// A sandbox as it stands in lists.
pub(super) fn listed_json(sandbox: &Sandbox) -> Value {
    let life = sandbox.life();
    json!({
        "templateID": sandbox.settings.template,
        "alias": sandbox.settings.template,
        "sandboxID": sandbox.id,
        "clientID": "local",
        "startedAt": rfc3339(sandbox.started_at),
        "endAt": rfc3339(SystemTime::now() + life.left()),
        "cpuCount": cpu_count(),
        "memoryMB": sandbox.live.memory >> 20,
        "diskSizeMB": sandbox.disk >> 20,
        "state": life.state.name(),
        "envdVersion": ENVD_VERSION,
        "metadata": sandbox.settings.metadata,
        "volumeMounts": [],
    })
}

/// The processors that a sandbox can use: those of the machine.
pub(super) fn cpu_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A life in bounds.
pub(super) fn checked_life(seconds: Option<u64>) -> Result<Duration, E2bError> {
    let life = seconds.map_or(DEFAULT_LIFE, Duration::from_secs);
    if life > MAX_LIFE {
        return Err(E2bError::bad_request(format!(
            "Timeout cannot be greater than {} hours",
            MAX_LIFE.as_secs() / 3600
        )));
    }
    Ok(life)
}

impl CreateRequest {
    fn settings(&self) -> Result<Settings, E2bError> {
        let metadata = self.metadata.clone().unwrap_or_default();
        let variables = self.env_vars.clone().unwrap_or_default();
        for (what, texts) in [("metadata", &metadata), ("envVars", &variables)] {
            let bytes: usize = texts
                .iter()
                .map(|(name, value)| name.len() + value.len())
                .sum();
            if texts.len() > MAX_METADATA || bytes > MAX_METADATA_BYTES {
                return Err(E2bError::bad_request(format!(
                    "{what}: at most {MAX_METADATA} entries of {MAX_METADATA_BYTES} bytes together"
                )));
            }
        }
        let network = self.network.as_ref();
        let hosts = network.map_or(0, |network| {
            network.allow_out.len() + network.deny_out.len()
        });
        if hosts > MAX_HOSTS {
            return Err(E2bError::bad_request(format!(
                "network: at most {MAX_HOSTS} hosts"
            )));
        }
        let is_pausing = self.auto_pause.unwrap_or(false);
        let resume = self.auto_resume.as_ref().and_then(|resume| resume.enabled);
        Ok(Settings {
            template: self.template.clone().unwrap_or_else(|| "base".to_owned()),
            env: None,
            metadata,
            variables,
            at_end: if is_pausing {
                AtEnd::Pause
            } else {
                AtEnd::Kill
            },
            resume: match resume {
                Some(true) => Resume::ByAnyRequest,
                _ => Resume::WhenAsked,
            },
            internet: match self.allow_internet_access {
                Some(false) => Internet::Refused,
                _ => Internet::Wanted,
            },
            allowed_hosts: network.map_or_else(Vec::new, |network| network.allow_out.clone()),
            denied_hosts: network.map_or_else(Vec::new, |network| network.deny_out.clone()),
        })
    }
}

impl Settings {
    /// Whether the creator of a sandbox agrees to a rule of the operator. A rule is left out whole where it covers a host that was denied.
    fn wants(&self, rule: &NetworkRule) -> bool {
        let named = |hosts: &[String]| {
            hosts.iter().any(|host| match &rule.host {
                HostPattern::Name(name) => host.eq_ignore_ascii_case(name),
                HostPattern::Below(parent) => host
                    .strip_prefix("*.")
                    .is_some_and(|host| host.eq_ignore_ascii_case(parent)),
                HostPattern::Address(address) => host.parse() == Ok(*address),
            })
        };
        if named(&self.allowed_hosts) {
            return true;
        }
        let is_denied = |host: &String| {
            ALL_HOSTS.contains(&host.as_str()) || rule.host.matches(host.trim_start_matches("*."))
        };
        !named(&self.denied_hosts) && !self.denied_hosts.iter().any(is_denied)
    }
}

impl AppState {
    async fn create_sandbox(
        &self,
        caller: &Caller,
        request: CreateRequest,
    ) -> Result<Arc<Sandbox>, E2bError> {
        if request
            .volume_mounts
            .as_ref()
            .is_some_and(|mounts| !mounts.is_empty())
        {
            return Err(E2bError::not_offered(
                "volumes are not offered: a sandbox of this server has the files of its workspace only",
            ));
        }
        if request.mcp.is_some() {
            return Err(E2bError::not_offered(
                "MCP servers inside a sandbox are not offered; this server is one itself, at /mcp",
            ));
        }
        let mut settings = request.settings()?;
        let life = checked_life(request.timeout)?;
        if let Some(snapshot) = self.sandbox_snapshot(caller, &settings.template) {
            return self.open_snapshot(caller, &snapshot, settings, life).await;
        }
        settings.env = self.environment_of_template(&settings.template)?;
        let new = NewSession {
            title: Some(format!("E2B sandbox ({})", settings.template)),
            options: SessionOptions {
                env: settings.env.clone(),
                shell: Shell::E2b,
                limits: sandbox_limits(),
                network: self.network_of(&settings),
                ..SessionOptions::default()
            },
            chat: None,
        };
        let live = self.open_session_at(caller, HOME, new).await?;
        self.add_sandbox(
            caller,
            live,
            NewSandbox {
                settings,
                life,
                file_metadata: FileMetadata::new(),
            },
        )
    }

    /// The hosts that a sandbox reaches: those that the operator opened, unless its creator wants none.
    pub(super) fn network_of(&self, settings: &Settings) -> Vec<NetworkRule> {
        match settings.internet {
            Internet::Wanted => {
                let opened = self.options().e2b.network.iter();
                opened
                    .filter(|rule| settings.wants(rule))
                    .cloned()
                    .collect()
            }
            Internet::Refused => Vec::new(),
        }
    }

    /// Refuses the name of a template that there is not.
    pub(super) fn check_template(&self, template: &str) -> Result<(), E2bError> {
        self.environment_of_template(template).map(drop)
    }

    /// The environment of a template; `None` is the default one.
    fn environment_of_template(&self, template: &str) -> Result<Option<String>, E2bError> {
        let name = template.split(':').next().unwrap_or(template);
        if DEFAULT_TEMPLATES.contains(&name) {
            return Ok(None);
        }
        let is_name = !name.is_empty() && !name.contains(['/', '.']);
        match is_name && self.host().requirements_of(name).is_ok() {
            true => Ok(Some(name.to_owned())),
            false => Err(E2bError::not_found(format!(
                "template '{template}' not found: this server knows `base`, `code-interpreter-v1`, the names of its environments and the ids of snapshots"
            ))),
        }
    }

    /// A sandbox that begins with a snapshot's state.
    async fn open_snapshot(
        &self,
        caller: &Caller,
        snapshot: &KeptSnapshot,
        settings: Settings,
        life: Duration,
    ) -> Result<Arc<Sandbox>, E2bError> {
        let place = self.take_place(&caller.user, snapshot.memory)?;
        let session = snapshot.state.open().await?;
        let copy = SessionCopy::of_sandbox(snapshot.memory, snapshot.last_cell);
        let live = self.adopt_copy(caller, session, copy, place).await?;
        let (mut variables, mut env, mut file_metadata) = Default::default();
        if let Some(kept) = snapshot.sandbox.clone() {
            (variables, env) = (kept.settings.variables, kept.settings.env);
            file_metadata = kept.file_metadata;
        }
        BTreeMap::extend(&mut variables, settings.variables);
        let settings = Settings {
            variables,
            template: snapshot.id.clone(),
            env,
            ..settings
        };
        self.add_sandbox(
            caller,
            live,
            NewSandbox {
                settings,
                life,
                file_metadata,
            },
        )
    }

    /// Gives a session the properties of a sandbox, and starts the clock of its life.
    pub(super) fn add_sandbox(
        &self,
        caller: &Caller,
        live: Arc<LiveSession>,
        new: NewSandbox,
    ) -> Result<Arc<Sandbox>, E2bError> {
        let network_hint = match self.network_of(&new.settings).is_empty() {
            true => NetworkHint::for_closed_network(new.settings.internet),
            false => NetworkHint::not_needed(),
        };
        let sandbox = Arc::new(Sandbox {
            id: random_id("i")?,
            caller: caller.clone(),
            contexts: Mutex::new(vec![super::contexts::CodeContext::default_of(&live)]),
            live,
            settings: new.settings,
            disk: self.quotas_of(&caller.user).bounded(sandbox_limits()).disk,
            token: Secret::random()?.0,
            started_at: SystemTime::now(),
            life: Mutex::new(Lifetime {
                ends_at: Instant::now() + new.life,
                state: RunState::Running,
            }),
            end_moved: Notify::new(),
            gone: CancellationToken::new(),
            watchers: Mutex::new(HashMap::new()),
            file_metadata: Mutex::new(new.file_metadata),
            network_hint,
            processor_sample: Mutex::new(ProcessorSample::at_start()),
            has_node: OnceCell::new(),
        });
        self.sandboxes().insert(Arc::clone(&sandbox));
        tokio::spawn(end_in_time(self.clone(), Arc::clone(&sandbox)));
        Ok(sandbox)
    }

    /// Ends a sandbox, and breaks off the streams of its output.
    pub(super) async fn kill_sandbox(&self, sandbox: &Sandbox) -> Result<(), E2bError> {
        self.sandboxes().remove(&sandbox.id);
        sandbox.gone.cancel();
        let contexts = std::mem::take(&mut *lock(&sandbox.contexts));
        for context in contexts {
            context.close(self).await?;
        }
        Ok(self.close_session(&sandbox.live.id).await?)
    }
}

/// The parts of a sandbox that its creator decides.
pub(super) struct NewSandbox {
    pub(super) settings: Settings,
    pub(super) life: Duration,
    pub(super) file_metadata: FileMetadata,
}

/// The limits of a sandbox: cells may take as long as the sandbox lives, as at E2B.
pub(super) fn sandbox_limits() -> Limits {
    Limits {
        memory: MEMORY_BYTES,
        wall: MAX_LIFE,
        idle: MAX_LIFE,
        ..Limits::default()
    }
}

/// Ends or pauses a sandbox when its time is over.
async fn end_in_time(state: AppState, sandbox: Arc<Sandbox>) {
    loop {
        let life = sandbox.life();
        tokio::select! {
            () = sandbox.gone.cancelled() => return,
            () = state.stop().cancelled() => return,
            () = sandbox.end_moved.notified() => continue,
            () = tokio::time::sleep_until(life.ends_at) => {}
        }
        // A paused sandbox has no end until it is resumed.
        if sandbox.life().state == RunState::Paused {
            sandbox.end_moved.notified().await;
            continue;
        }
        if sandbox.life().ends_at > Instant::now() {
            continue;
        }
        let is_paused =
            sandbox.settings.at_end == AtEnd::Pause && state.pause_sandbox(&sandbox).await.is_ok();
        if !is_paused {
            let _ = state.kill_sandbox(&sandbox).await;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(network: Value) -> Vec<String> {
        let request = json!({"templateID": "base", "network": network});
        let request: CreateRequest = serde_json::from_value(request).unwrap_or_default();
        let settings = request.settings().unwrap_or_else(|_| panic!("settings"));
        let opened = ["a.example", "*.b.example", "10.0.0.1"];
        let rule = |host: &&str| {
            let rule: Result<NetworkRule, _> = host.parse();
            rule.is_ok_and(|rule| settings.wants(&rule))
        };
        opened.into_iter().filter(rule).map(str::to_owned).collect()
    }

    #[test]
    fn a_client_narrows_what_the_operator_opened() {
        assert_eq!(reached(json!({})), ["a.example", "*.b.example", "10.0.0.1"]);
        let all = "0.0.0.0/0";
        assert_eq!(reached(json!({"denyOut": [all]})), [""; 0]);
        let one = json!({"denyOut": [all], "allowOut": ["A.example", "other.example"]});
        assert_eq!(reached(one), ["a.example"]);
        // A host below a name takes the whole rule along.
        let below = json!({"denyOut": ["x.b.example", "10.0.0.1"]});
        assert_eq!(reached(below), ["a.example"]);
        let wider = json!({"denyOut": [all], "allowOut": ["x.b.example"]});
        assert_eq!(reached(wider), [""; 0]);
    }
}
