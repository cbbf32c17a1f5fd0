// The start page and the waiting page of the hub. No service text ever becomes HTML: textContent only.

const hub = window.jhdata ?? {};
const LOOK_MS = 4000;

function find(selector, root = document) {
  return root.querySelector(selector);
}

function ask(path, options = {}) {
  const headers = { 'X-XSRFToken': hub.xsrf_token ?? '', 'Content-Type': 'application/json' };
  return fetch(`${hub.base_url}api/${path}`, { ...options, headers, credentials: 'same-origin' });
}

function pathOf(user, server) {
  return [user, server].filter(part => part !== '').map(encodeURIComponent).join('/');
}

// ---------- start page ----------
function startPage(root) {
  const { user, server } = JSON.parse(root.dataset.kai);
  const form = root.closest('form');
  let seenAt = Date.now();
  let buttons = {};

  const value = name => new FormData(form).get(name) ?? '';

  function draw(shown) {
    seenAt = Date.now();
    buttons = shown.buttons;
    for (const row of shown.rows) {
      const card = find(`[data-share="${CSS.escape(row.id)}"]`, root);
      if (card) {
        drawCard(card, row);
      } else if (row.id === 'memory') {
        drawWhen(find('#kai-memory-when', root), row);
      }
    }
    for (const row of shown.queues) {
      const card = find(`[data-queue="${CSS.escape(row.name)}"] small`, root);
      if (card) {
        card.textContent = row.about;
      }
    }
    const told = find('#kai-told', root);
    told.textContent = shown.told;
    told.hidden = !shown.told;
    leaveImpossible();
    name();
  }

  function drawCard(card, row) {
    find('.what small', card).textContent = row.about;
    find('input', card).disabled = row.verdict === 'never';
    drawWhen(find('.when', card), row);
  }

  function drawWhen(when, row) {
    const word = find('b', when);
    word.textContent = row.when;
    word.className = { now: 'soon', never: 'no' }[row.verdict] ?? '';
    find('small', when).textContent = row.id === 'memory' && row.verdict === 'never' ? row.about : row.more;
  }

  function leaveImpossible() {
    const chosen = find('input[name=share]:checked', root);
    if (chosen?.disabled) {
      chosen.checked = false;
      find('input[name=share]:not(:disabled)', root).checked = true;
    }
  }

  function name() {
    const share = value('share');
    find('#kai-go', root).textContent = buttons[share] ?? (share === 'cpu' ? 'Start on CPU now' : 'Start');
  }

  async function look() {
    const fields = new URLSearchParams({ queue: value('queue'), priority: value('priority') });
    if (value('share') === 'memory' && value('gpu_memory')) {
      fields.set('gpu_memory', value('gpu_memory'));
    }
    try {
      const answer = await ask(`kai/choices/${pathOf(user, server)}?${fields}`);
      if (answer.ok) {
        draw(await answer.json());
      }
    } catch {
      // The hub is away: the page says how old its numbers are.
    }
  }

  function age() {
    const seconds = Math.round((Date.now() - seenAt) / 1000);
    find('#kai-as-of', root).textContent = seconds < 2 ? 'Forecast as of now' : `Forecast as of ${seconds} s ago`;
  }

  form.addEventListener('input', event => {
    if (event.target.id === 'kai-gpu-memory') {
      find('#kai-memory', root).checked = true;
    }
    name();
  });
  form.addEventListener('change', () => void look());
  form.addEventListener('submit', () => {
    const button = find('#kai-go', root);
    button.textContent = 'Asking…';
    setTimeout(() => { button.disabled = true; }, 0);
  });
  age();
  setInterval(age, 1000);
  setInterval(() => { if (!document.hidden) { void look(); } }, LOOK_MS);
  void look().then(() => { root.dataset.ready = ''; });
}

// ---------- waiting page ----------
const CHECK = 'm3.5 8.5 3 3 6-7';
const HOURGLASS = 'M4 2h8M4 14h8M5 2v2.4C5 6.2 8 7 8 8s-3 1.8-3 3.6V14M11 2v2.4C11 6.2 8 7 8 8s3 1.8 3 3.6V14';
const ARROW = 'M3 8h8M8 4.5 11.5 8 8 11.5M13.5 3.5v9';
const QUEUED = 1;

function icon(path) {
  const space = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(space, 'svg');
  svg.setAttribute('class', 'jp-Kai-Icon');
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('aria-hidden', 'true');
  const line = document.createElementNS(space, 'path');
  line.setAttribute('d', path);
  svg.append(line);
  return svg;
}

function element(tag, text = '', ...children) {
  const made = document.createElement(tag);
  made.textContent = text;
  made.append(...children);
  return made;
}

function clock(at) {
  return new Date(at).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
}

function stage(kai, index) {
  const dot = element('span');
  dot.className = 'dot';
  const began = kai.began[index];
  const note = kai.notes[index];
  const item = element('li', '', dot, element('b', kai.names[index]), element('span', note || (began ? clock(began) : '')));
  if (index < kai.stage) {
    item.className = 'done';
    dot.append(icon(CHECK));
  } else if (index === kai.stage) {
    item.className = 'now';
    item.setAttribute('aria-current', 'step');
    dot.dataset.state = index === QUEUED ? 'wait' : 'run';
    dot.append(icon(index === QUEUED ? HOURGLASS : ARROW));
  }
  if (index === QUEUED && began && index === kai.stage) {
    item.lastChild.textContent = `since ${clock(began)}${note ? `, ${note}` : ''}`;
  }
  if (began) {
    item.lastChild.title = new Date(began).toISOString();
  }
  return item;
}

function waitingPage(root) {
  const { user, server } = root.dataset;
  let wants = false;
  let shown = 0;

  function draw(event) {
    const { kai } = event;
    setText('#kai-title', kai.title);
    setText('#kai-line strong', kai.headline);
    setText('#kai-line span', kai.detail);
    root.setAttribute('aria-label', kai.title);
    document.title = kai.title;
    shown = Math.max(shown, event.progress);
    const meter = find('#kai-meter');
    meter.style.setProperty('--v', `${shown}%`);
    meter.setAttribute('aria-valuenow', String(shown));
    meter.dataset.state = kai.keeps_place ? 'wait' : 'run';
    find('#kai-stages').replaceChildren(...kai.names.map((_, index) => stage(kai, index)));
    find('#kai-keep').hidden = !kai.keeps_place;
    find('#kai-notify').hidden = !kai.keeps_place || !('Notification' in window) || Notification.permission === 'denied';
    setText('#kai-stop', stopWords(kai));
    drawActs(kai.acts);
  }

  function setText(selector, text) {
    const target = find(selector);
    if (target.textContent !== text) {
      target.textContent = text; // only what changed is told to a screen reader
    }
  }

  function stopWords(kai) {
    if (kai.keeps_place) {
      return 'Stop and give the place back';
    }
    return kai.stage > QUEUED ? 'Stop and give the GPU back' : 'Stop';
  }

  let drawn = '';
  function drawActs(acts) {
    const now = JSON.stringify(acts);
    if (now === drawn) {
      return; // a button under the pointer stays
    }
    drawn = now;
    const buttons = acts.map((act, index) => {
      const button = element('button', act.label);
      button.type = 'button';
      button.className = 'jp-Kai-Button';
      button.dataset.size = 'l';
      if (index === 0) {
        button.dataset.kind = 'main';
      }
      if (act.when) {
        const when = element('span', ` (${act.when})`);
        when.className = 'jp-Kai-When';
        button.append(when);
      }
      button.addEventListener('click', () => void choose(act.options, button));
      return button;
    });
    find('#kai-acts').replaceChildren(...buttons);
  }

  async function choose(options, button) {
    button.disabled = true;
    const answer = await ask(`kai/choose/${pathOf(user, server)}`, { method: 'POST', body: JSON.stringify(options) });
    if (!answer.ok) {
      button.disabled = false;
      setText('#kai-line span', (await answer.json()).message ?? 'The hub did not take this. Try again.');
    }
  }

  async function stop() {
    find('#kai-stop').disabled = true;
    setText('#kai-line strong', 'Stopping.');
    const path = server ? `users/${encodeURIComponent(user)}/servers/${encodeURIComponent(server)}` : `users/${encodeURIComponent(user)}/server`;
    await ask(path, { method: 'DELETE' });
    window.location = `${hub.base_url}spawn/${pathOf(user, server)}`;
  }

  function notify() {
    void Notification.requestPermission().then(answer => {
      wants = answer === 'granted';
      setText('#kai-notify', wants ? 'We tell you when it is ready' : 'Notify me');
      find('#kai-notify').disabled = wants;
    });
  }

  find('#kai-stop').addEventListener('click', () => void stop());
  find('#kai-notify').addEventListener('click', notify);
  const source = new EventSource(root.dataset.progress);
  source.onmessage = message => {
    const event = JSON.parse(message.data);
    if (event.kai) {
      draw(event);
    }
    if (event.ready || event.failed) {
      source.close();
      if (wants) {
        new Notification(event.ready ? 'Your server is ready' : 'Your server was not started');
      }
      window.location.reload();
    }
  };
}

const start = find('#kai-start');
const wait = find('#kai-wait');
if (start) {
  startPage(start);
}
if (wait) {
  waitingPage(wait);
}
