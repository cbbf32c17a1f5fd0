/** The one icon of ours that JupyterLab shows. */

import { LabIcon } from '@jupyterlab/ui-components';
import { iconMarkup } from '../draw/icons';

export const gpuIcon = new LabIcon({ name: 'kai:gpu', svgstr: iconMarkup('gpu') });
export const gangIcon = new LabIcon({ name: 'kai:gang', svgstr: iconMarkup('squares') });
