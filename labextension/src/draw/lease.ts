/** What a granted lease says of itself: device, memory, end, and the notes that must be said. */

import type { DeviceShare, PodGroupView } from '../api/schema';
import type { CardStage } from './card';
import { type Child, h } from './element';
import { facts, shareBar, tag } from './parts';
import { clock, duration, memory, unbroken, utc } from './words';

/** A longer note is a sentence, not a tag. */
const LONG_NOTE = 40;

/** What is held, what is enforced, until when. */
export function leaseFacts(view: PodGroupView, stage: CardStage): HTMLElement {
  const { trans } = stage;
  const { share_mib } = view.request;
  const ends = view.expires_at;
  return facts(
    ...view.pods.flatMap(pod =>
      pod.devices.map(device => deviceFact(view, device, pod.node ?? '', stage))
    ),
    share_mib === null ? null : [trans.__('Memory'), trans.__('%1 share', memory(share_mib))],
    ends === null
      ? [trans.__('Lease'), trans.__('No end. It is yours until you release it.')]
      : [
          trans.__('Lease'),
          h(
            'span',
            { title: utc(ends) },
            trans.__('Ends %1, in %2', clock(ends), duration((ends - stage.now) / 1000))
          )
        ]
  );
}

function deviceFact(
  view: PodGroupView,
  device: DeviceShare,
  node: string,
  stage: CardStage
): readonly [string, Child] {
  const { trans } = stage;
  const seen = stage.nodes
    .find(({ name }) => name === node)
    ?.devices.find(({ id }) => id === device.id);
  const own = [{ mine: true, queue: view.queue, milli: device.milli, who: trans.__('you') }];
  const size =
    device.memory_mib === null ? device.model : `${device.model} ${memory(device.memory_mib)}`;
  return [
    trans.__('Device'),
    [
      unbroken(trans.__('GPU %1 on %2, %3', device.index, node, size)),
      shareBar(device.index, seen?.holders ?? own, new Set([view.queue]), trans, true)
    ]
  ];
}

/** Things that must be said, each as a tag: "simulated", "memory not enforced", "CPU not limited". */
export function notes(view: PodGroupView): HTMLElement | null {
  if (view.notes.length === 0) {
    return null;
  }
  return h('p', { class: 'jp-Kai-Notes' }, view.notes.map(note));
}

function note(text: string): HTMLElement {
  if (text.length > LONG_NOTE) {
    return h('span', { class: 'jp-Kai-Soft' }, text);
  }
  const warns = text.includes('not enforced');
  return tag(warns ? 'wait' : 'mute', warns ? 'alert' : 'level', text);
}
