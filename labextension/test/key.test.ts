import { describe, expect, it, vi } from 'vitest';
import { freshKey } from '../src/api/key';

describe('a fresh key', () => {
  it('is 32 hexadecimal digits, zeros kept, and another one each time', () => {
    vi.spyOn(crypto, 'getRandomValues').mockImplementationOnce(bytes => bytes);
    expect(freshKey()).toBe('0'.repeat(32));
    const keys = new Set(Array.from({ length: 100 }, freshKey));
    expect(keys.size).toBe(100);
    expect([...keys].every(key => /^[0-9a-f]{32}$/.test(key))).toBe(true);
  });

  it('does not need a secure context', () => {
    vi.stubGlobal('crypto', {
      getRandomValues: (bytes: Uint8Array) => bytes.fill(255)
    });
    expect(freshKey()).toBe('f'.repeat(32));
    vi.unstubAllGlobals();
  });
});
