// Counts the requests of models whose number of replicas follows them, and holds requests until a model without replicas has started.
// All workers share the counters; a worker that crashes leaves its requests counted until the pod is replaced.
// The memory of a request is freed only when it ends, so a request that waits sends nothing: one probe per model looks for all of them.

const LOOK_MS = 1000;

// Evaluated when a request is forwarded, so after the limits of consumers. An empty header is not sent.
function begun(r) {
    const model = r.variables.counted_model;
    if (model) {
        ngx.shared.requests.incr('begun ' + model, 1);
        r.variables.begun = model;
    }
    return '';
}

// Evaluated for the access log, so once for each request that has ended; the empty result keeps it out of the log.
function ended(r) {
    // The fallback of a route is another model by now.
    if (r.variables.begun) {
        ngx.shared.requests.incr('ended ' + r.variables.begun, 1);
    }
    if (r.variables.held === '1') {
        ngx.shared.requests.incr('held', -1);
    }
    return '';
}

function report(r) {
    const models = r.variables.counted_models.split(' ');
    const count = (what, model) => ngx.shared.requests.get(what + ' ' + model) || 0;
    const metric = (name, type, help, value) => [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`]
        .concat(models.map((model) => `${name}{model="${model}"} ${value(model)}`));
    const lines = metric('inferplan_gateway_requests_total', 'counter', 'Requests with a valid key, by model.', (model) => count('begun', model))
        .concat(metric('inferplan_gateway_requests_in_flight', 'gauge', 'Requests without an answer, by model.',
            (model) => Math.max(0, count('begun', model) - count('ended', model))));
    r.headersOut['Content-Type'] = 'text/plain; version=0.0.4';
    r.return(200, lines.join('\n') + '\n');
}

// Whether a request may wait: its model has no replica, its body is small, and few others wait. Others get their answer at once.
function holds(r) {
    const length = Number(r.headersIn['Content-Length'] || 0);
    const fits = length <= Number(r.variables.held_body_bytes) && !r.headersIn['Transfer-Encoding'];
    if (!fits || ngx.shared.requests.get('ready ' + r.variables.served_model)) {
        return '';
    }
    if (ngx.shared.requests.incr('held', 1) > Number(r.variables.held_requests)) {
        ngx.shared.requests.incr('held', -1);
        return '';
    }
    r.variables.held = '1';
    return '1';
}

function wait(r) {
    const end = Date.now() + 1000 * (Number(r.variables.wait_seconds) - Number(r.variables.request_time));
    const look = () => {
        if (ngx.shared.requests.get('ready ' + r.variables.served_model)) {
            r.internalRedirect('@started');
        } else if (Date.now() < end) {
            setTimeout(look, LOOK_MS);
        } else {
            r.internalRedirect('@error_502');
        }
    };
    if (r.variables.start_seconds) {
        look();
    } else {
        r.internalRedirect('@error_502');
    }
}

// A Service has ready pods only, so any answer says that one is ready. A server that is too busy to answer keeps its state.
async function probe(s) {
    await Promise.all(s.variables.probed.split(' ').map((entry) => {
        const pair = entry.split('=');
        const state = (ready) => ngx.shared.requests.set('ready ' + pair[0], ready);
        return ngx.fetch(pair[1] + '/').then(() => state(1), (error) => /timed out/.test(error.message) || state(0));
    }));
}

export default { begun, ended, holds, probe, report, wait };
