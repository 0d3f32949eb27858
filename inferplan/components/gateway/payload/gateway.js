// Needs njs 0.9.9 or newer; prepare.sh uses these functions where this nginx has it.

const FIRST_MS = 30000, BYTES_PER_MS = 50, LARGEST_CHUNKED = 10e6;
// As long as nginx itself waits for an answer about a name (prepare.sh, resolver_timeout).
const LOOKUP_MS = 5000;

// Ends a request whose body takes longer to arrive than its size allows: nginx itself limits only the pause between two reads.
async function read(r) {
    const length = Number(r.headersIn['Content-Length'] || LARGEST_CHUNKED);
    const timer = setTimeout(() => {
        r.status = 408;
        // An error alone ends a request that is reading its body.
        throw new Error('the body is too slow');
    }, FIRST_MS + length / BYTES_PER_MS);
    await r.readRequestArrayBuffer();
    clearTimeout(timer);
    // The patterns read this value, so that nginx does not join the buffers of the body once more.
    r.rawVariables.whole_body;
}

function whole(r) {
    return r.requestBuffer;
}

// Whether nginx knows the addresses of all kept servers, which it looks up when it starts. A name that does not exist delays a pod once.
async function started(r) {
    const state = ngx.shared.startup;
    state.add('first', Date.now());
    if (!state.get('done') && Date.now() - state.get('first') < LOOKUP_MS) {
        const pools = require('fs').readFileSync(r.variables.pools_file, 'utf8').split('\n').filter(Boolean);
        for (let index = 0; index < pools.length; index++) {
            const reply = await r.subrequest('/.pool/' + pools[index]);
            // Without a server, nginx names the pool itself.
            if (reply.variables.upstream_addr === pools[index]) {
                return r.return(503, `{"status":"looking up ${pools[index]}"}`);
            }
        }
    }
    state.set('done', 1);
    r.return(200, '{"status":"ok"}');
}

export default { read, started, whole };
