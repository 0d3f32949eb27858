// Ends a request whose body takes longer to arrive than its size allows: nginx itself limits only the pause between two reads.

const FIRST_MS = 30000, BYTES_PER_MS = 50, LARGEST_CHUNKED = 10e6;

async function read(r) {
    const length = Number(r.headersIn['Content-Length'] || LARGEST_CHUNKED);
    const timer = setTimeout(() => {
        r.status = 408;
        // An error alone ends a request that is reading its body.
        throw new Error('the body is too slow');
    }, FIRST_MS + length / BYTES_PER_MS);
    await r.readRequestArrayBuffer();
    clearTimeout(timer);
}

export default { read };
