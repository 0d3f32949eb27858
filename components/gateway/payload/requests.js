// Counts the requests of models whose number of replicas follows them, and holds requests until a model without replicas has started.
// All workers share the counters; a worker that crashes leaves its requests counted as in flight until the pod is replaced.

const RETRY_MS = 500;

function begun(r) {
    const model = r.variables.counted_model;
    if (!model) {
        return '';
    }
    ngx.shared.requests.incr('begun ' + model, 1);
    return '1';
}

// Evaluated for the access log, so once for each request that has ended; the empty result keeps it out of the log.
function ended(r) {
    if (r.variables.begun === '1') {
        ngx.shared.requests.incr('ended ' + r.variables.counted_model, 1);
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

async function wait(r) {
    const origin = r.variables.backend.match(/^http:\/\/[^/]+/)[0];
    const end = Date.now() + 1000 * (Number(r.variables.wait_seconds) - Number(r.variables.request_time));
    if (!r.variables.start_seconds) {
        r.internalRedirect('@error_502');
        return;
    }
    while (Date.now() < end) {
        try {
            // A Service has ready pods only, so that any answer says that one is ready.
            await ngx.fetch(origin + '/');
            r.internalRedirect('@started');
            return;
        } catch (error) {
            await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        }
    }
    r.internalRedirect('@error_502');
}

export default { begun, ended, report, wait };
