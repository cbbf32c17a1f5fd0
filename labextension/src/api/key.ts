/** Return a fresh idempotency key. `crypto.randomUUID` is missing on pages that come over plain HTTP from another machine. */
export function freshKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('');
}
