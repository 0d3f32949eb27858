// Prints what busboy reads as the field `model` of each form, given as a line of base64; null if it rejects the form.
const busboy = require('busboy');

async function read(form) {
  return new Promise((resolve) => {
    const values = [];
    try {
      const parser = busboy({ headers: { 'content-type': 'multipart/form-data; boundary=XX' } });
      parser.on('field', (name, value) => { if (name === 'model') values.push(value); });
      parser.on('file', (name, stream) => { if (name === 'model') values.push('a file'); stream.resume(); });
      parser.on('error', () => resolve(null));
      parser.on('close', () => resolve(values));
      parser.end(form);
    } catch (error) {
      resolve(null);
    }
  });
}

(async () => {
  for (const line of require('fs').readFileSync(0, 'latin1').split('\n')) {
    console.log(JSON.stringify(await read(Buffer.from(line, 'base64'))));
  }
})();
