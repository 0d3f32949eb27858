// Counts the answers of the gateway for Prometheus: by model, route, consumer and class of the status, and how long they took.
// Labels have known values only: an unknown model, consumer or route is empty. A full zone loses counts, never requests.

const BOUNDS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

// Evaluated for the access log, so once for each request that has ended; the empty result keeps it out of the log.
function count(r) {
    const v = r.variables;
    const model = v.served_model || '', seconds = Number(v.request_time);
    const add = (key, value) => ngx.shared.answers.incr(key, value, 0);
    try {
        add(['answers', model, v.route || '', v.consumer || '', v.status[0] + 'xx'].join(' '), 1);
        if (model) {
            const bound = BOUNDS.find((each) => seconds <= each);
            add(['seconds', model, bound === undefined ? '+Inf' : bound].join(' '), 1);
            add('sum ' + model, seconds);
        }
    } catch (e) {
        return '';
    }
    return '';
}

function text(answers, requests, counted) {
    const samples = {answers: [], models: {}};
    Object.keys(answers).sort().forEach((key) => {
        const part = key.split(' ');
        if (part[0] === 'answers') {
            samples.answers.push(`inferplan_gateway_answers_total{model="${part[1]}",route="${part[2]}",consumer="${part[3]}",code="${part[4]}"} ${answers[key]}`);
        } else {
            samples.models[part[1]] = 1;
        }
    });
    const head = (name, type, help) => [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`];
    const begun = (model) => requests['begun ' + model] || 0;
    const durations = Object.keys(samples.models).map((model) => {
        let total = 0;
        const name = 'inferplan_gateway_request_duration_seconds';
        const buckets = BOUNDS.concat('+Inf').map((bound) => {
            total += answers[`seconds ${model} ${bound}`] || 0;
            return `${name}_bucket{model="${model}",le="${bound}"} ${total}`;
        });
        return buckets.concat(`${name}_sum{model="${model}"} ${answers['sum ' + model] || 0}`, `${name}_count{model="${model}"} ${total}`).join('\n');
    });
    return head('inferplan_gateway_answers_total', 'counter', 'Answers by model, route, consumer and class of the status.').concat(
        samples.answers,
        head('inferplan_gateway_request_duration_seconds', 'histogram', 'Seconds from the first byte of a request to the last of its answer.'), durations,
        head('inferplan_gateway_requests_total', 'counter', 'Requests with a valid key, by model.'),
        counted.map((model) => `inferplan_gateway_requests_total{model="${model}"} ${begun(model)}`),
        head('inferplan_gateway_requests_in_flight', 'gauge', 'Requests without an answer, by model.'),
        counted.map((model) => `inferplan_gateway_requests_in_flight{model="${model}"} ${Math.max(0, begun(model) - (requests['ended ' + model] || 0))}`)
    ).join('\n') + '\n';
}

function report(r) {
    const values = (zone) => zone.keys(100000).reduce((all, key) => { all[key] = zone.get(key); return all; }, {});
    r.headersOut['Content-Type'] = 'text/plain; version=0.0.4';
    r.return(200, text(values(ngx.shared.answers), values(ngx.shared.requests), r.variables.counted_models.split(' ')));
}

export default { count, report, text };
