"""The adjective table: Spanish, English, the nouns it describes, the copula, then tags.

Nouns are named by letter: P people, A animals, O objects, C clothes, V vehicles, R reading
matter, F food, D drinks, L places and rooms, X ideas, E events, B parts of the body.
The copula is `ser` or `estar`. Tags: `pre` may stand before the noun, `only` stands only
there, `pred` never stands next to a noun; `abs` is not compared,
nor is `rel`, a colour or an origin; `fem=`/`pl=` are irregular forms; `short=` is the
form before a masculine singular noun.
"""

TABLE = """
alto tall P ser
bajo short P ser
joven young PA ser pl=jóvenes
viejo old PAOCVR ser
amable kind P ser
simpático nice P ser
inteligente intelligent PA ser
fuerte strong PAB ser
débil weak PA ser
rico rich P ser
pobre poor P ser
famoso famous PRL ser pre
delgado thin PA ser
gordo fat PA ser
trabajador hardworking P ser
perezoso lazy PA ser
tímido shy P ser
alegre cheerful P ser
valiente brave PA ser
educado polite P ser
generoso generous P ser
elegante elegant PCL ser
rubio blond P ser abs
serio serious P ser
loco crazy P estar
orgulloso proud P estar
paciente patient P ser
curioso curious PA ser
cansado tired PA estar pred
contento happy P estar pred
triste sad PA estar pred
enfermo sick PA estar
enfadado angry P estar pred
nervioso nervous P estar pred
preocupado worried P estar pred
ocupado busy P estar pred
sorprendido surprised P estar pred
borracho drunk P estar pred
asustado scared PA estar pred
dormido asleep PA estar pred abs
despierto awake PA estar pred abs
solo alone P estar pred abs
rojo red OCV ser rel
azul blue OCV ser rel
verde green OCV ser rel
amarillo yellow OCV ser rel
blanco white OCVA ser rel
negro black OCVA ser rel
gris gray OCVA ser rel
marrón brown OCVA ser fem=marrón rel
rosa pink OCV ser pl=rosas rel
nuevo new OCVRLX ser pre abs
caro expensive OCVFDL ser
barato cheap OCVFD ser
grande big OCVLAB ser
gran great XELR ser only fem=gran pl=grandes
pequeño small OCVLAB ser pre
bonito pretty OCLA ser
hermoso beautiful LCRA ser pre
feo ugly OCVA ser
pesado heavy OR ser
ligero light O ser
limpio clean OCVL estar
sucio dirty OCVLB estar
roto broken OV estar abs
vacío empty VL estar abs
moderno modern OVL ser rel
útil useful OXR ser
redondo round OF ser abs
largo long CRE ser
corto short CRE ser
duro hard F estar
rápido fast VA ser
lento slow VA ser
mojado wet OCA estar
seco dry CF estar
caliente hot FDB estar
frío cold FDB estar
dulce sweet FD ser
fresco fresh FD estar
delicioso delicious FD ser
amargo bitter FD ser
malo bad REXFD ser pre short=mal
bueno good REXFDPV ser pre short=buen
tranquilo quiet LP ser
ruidoso noisy LV ser
oscuro dark L ser
seguro safe LV ser
peligroso dangerous LVA ser
antiguo ancient LO ser abs
interesante interesting REXL ser
aburrido boring RE ser
importante important RXEP ser
difícil difficult X ser
fácil easy X ser
divertido fun ERP ser
extraño strange XEOA ser pre
simple simple XR ser
claro clear XR ser
perfecto perfect XE ser abs
terrible terrible XE ser pre abs
excelente excellent XEFRP ser pre abs
maravilloso wonderful XELPR ser pre abs
especial special XEOC ser
español Spanish PRFD ser rel
inglés English PRV ser rel
francés French PRFDC ser rel
alemán German PVR ser rel
italiano Italian PFCV ser rel
japonés Japanese PVOF ser rel
mexicano Mexican PF ser rel
"""
