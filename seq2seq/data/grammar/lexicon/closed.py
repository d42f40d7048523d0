"""Names, places, numbers, periphrases, adverbs and the other short tables."""

MEN = """
Juan Pedro Luis Carlos Miguel Antonio José Javier Pablo Diego Andrés Manuel Fernando Alberto
Sergio Tomás Rafael Raúl Jorge Daniel
"""

WOMEN = """
María Ana Carmen Lucía Laura Marta Elena Sofía Paula Isabel Raquel Carla Julia Teresa Pilar
Irene Sara Beatriz Silvia Alicia
"""

CITIES = """
Madrid=Madrid Barcelona=Barcelona Sevilla=Seville Valencia=Valencia Granada=Granada
Toledo=Toledo Londres=London París=Paris Roma=Rome Berlín=Berlin Lisboa=Lisbon Moscú=Moscow
Tokio=Tokyo Bogotá=Bogotá Lima=Lima Atenas=Athens Viena=Vienna Ginebra=Geneva
"""

COUNTRIES = """
España=Spain Francia=France Italia=Italy Alemania=Germany Inglaterra=England México=Mexico
Argentina=Argentina Perú=Peru Chile=Chile Brasil=Brazil Japón=Japan China=China India=India
Rusia=Russia Portugal=Portugal Grecia=Greece Canadá=Canada Suiza=Switzerland Egipto=Egypt
Cuba=Cuba
"""

NUMBERS = """
dos=two tres=three cuatro=four cinco=five seis=six siete=seven ocho=eight nueve=nine diez=ten
once=eleven doce=twelve quince=fifteen veinte=twenty treinta=thirty cuarenta=forty
cincuenta=fifty sesenta=sixty setenta=seventy ochenta=eighty cien=a_hundred
"""

ORDINALS = """
primero=first segundo=second tercero=third cuarto=fourth quinto=fifth último=last
"""

WEEKDAYS = """
lunes=Monday martes=Tuesday miércoles=Wednesday jueves=Thursday viernes=Friday
sábado=Saturday domingo=Sunday
"""

MONTHS = """
enero=January febrero=February marzo=March abril=April mayo=May junio=June julio=July
agosto=August septiembre=September octubre=October noviembre=November diciembre=December
"""

SEASONS = "primavera=spring verano=summer otoño=fall invierno=winter"

MATERIALS = """
madera=wooden oro=gold plata=silver cuero=leather cristal=glass plástico=plastic
"""

# Before the verb in both languages: tenses it goes with, Spanish, English.
FREQUENCY = """
pres imp modal | siempre | always
pres imp | casi^1 siempre^2 | almost^1 always^2
pres imp | a menudo | often
pres imp | a veces | sometimes
pres | normalmente | usually
pres imp | raramente | rarely
perf pret | por fin | finally
perf plup | ya | already
pres imp pret fut perf modal | también | also
pres prog | todavía | still
"""

# Manner adverbs, by the letter verbs name them with.
MANNER = """
W | bien | well
W | mal | badly
W | muy^1 bien^2 | very^1 well^2
W | mejor^1 que^2 nadie^3 | better^1 than^2 anyone^3
Q | rápidamente | quickly
Q | deprisa | quickly
Q | despacio | slowly
Q | lentamente | slowly
H | mucho | a lot
H | poco | very little
H | demasiado | too much
T | temprano | early
T | tarde | late
T | muy^1 temprano^2 | very^1 early^2
T | demasiado^1 tarde^2 | too^1 late^2
C | con cuidado | carefully
N | en^1 silencio^2 | in^1 silence^2
N | sin^1 razón^2 | for^1 no^1 reason^2
"""

# Times of day, week and year: the tenses each goes with, Spanish, English. Here and above,
# numbers say which words translate each other, where not all of them do together.
TIMES = """
pret | ayer | yesterday
pret | anoche | last night
pret | anteayer | the day before yesterday
pret | ayer^1 por^2 la^2 tarde^2 | yesterday^1 afternoon^2
pret | la^1 semana^2 pasada^1 | last^1 week^2
pret | el^1 mes^2 pasado^1 | last^1 month^2
pret | el^1 año^2 pasado^1 | last^1 year^2
pret | esta^1 mañana^2 | this^1 morning^2
fut modal | mañana | tomorrow
fut modal | pasado mañana | the day after tomorrow
fut modal | mañana^1 por^2 la^2 mañana^2 | tomorrow^1 morning^2
fut modal | esta noche | tonight
fut modal | la^1 semana^2 que^1 viene^1 | next^1 week^2
fut modal | el^1 mes^2 que^1 viene^1 | next^1 month^2
fut modal | el^1 año^2 que^1 viene^1 | next^1 year^2
fut modal | este^1 fin^2 de^2 semana^2 | this^1 weekend^2
pres imp | todos^1 los^1 días^2 | every^1 day^2
pres imp | cada^1 semana^2 | every^1 week^2
pres imp | todos^1 los^1 años^2 | every^1 year^2
pres imp | por^1 la^2 mañana^3 | in^1 the^2 morning^3
pres imp | por^1 la^2 tarde^3 | in^1 the^2 afternoon^3
pres imp | por^1 la^1 noche^2 | at^1 night^2
pres imp | los^1 fines^2 de^2 semana^2 | on^1 weekends^2
pres imp | una^1 vez^1 al^2 mes^3 | once^1 a^2 month^3
pres imp | dos^1 veces^1 por^2 semana^3 | twice^1 a^2 week^3
perf modal | hoy | today
perf | esta^1 semana^2 | this^1 week^2
perf | este^1 año^2 | this^1 year^2
perf | muchas^1 veces^2 | many^1 times^2
prog | ahora | now
prog | en^1 este^2 momento^3 | at^1 this^2 moment^3
"""

# Spanish verb and marks | linking word, form of the main verb | English operator verb |
# English link and form | tenses
PERIPHRASES = """
querer | inf | want | to base | pres imp | 4
poder | inf | can | base | pres imp cond | 4
tener | que inf | have | to base | pres pret fut | 4
ir | a inf | be going | to base | pres imp | 5
deber | inf | should | base | pres | 3
necesitar | inf | need | to base | pres | 2
acabar | de inf | have just | part | pres | 2
empezar | a inf | start | to base | pret | 2
dejar | de inf | stop | ger | pret | 2
intentar | inf | try | to base | pres pret | 2
decidir | inf | decide | to base | pret | 2
soler | inf | usually | base | pres | 1.5
seguir | ger | keep | ger | pres pret | 1
esperar | inf | hope | to base | pres | 1.5
prometer | inf | promise | to base | pret | 1
"""

# What things are made of: the noun, then what can be made of it.
MADE_OF = """
madera: mesa silla puerta caja cama escritorio estante juguete cuchara armario muñeca
oro: reloj anillo moneda taza plato
plata: reloj anillo cuchillo cuchara tenedor plato moneda
cuero: bolsa zapato bota guante chaqueta maleta sofá
cristal: vaso taza anillo plato mesa botella lámpara puerta
plástico: caja plato vaso juguete silla bolsa botella cuchara
"""
